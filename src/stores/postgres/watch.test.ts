/** Silent holders are found within one lease and one sweep, whoever sweeps: a sweep that sees a tenant's rows only hides no other's. */
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../../test/services/addresses.ts";
import { CliLedger } from "../../../test/support/cli.ts";
import type { Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";

const cli = new CliLedger();
afterAll(() => cli.close());

async function connection(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

function open(options: Parameters<typeof postgresStore>[0]): Store {
  const store = postgresStore({ listen: false, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** A role under row-level security, and its own URL. */
async function roleUnderRls(database: FreshDatabase): Promise<{ role: string; url: string }> {
  const admin = await connection(database.adminUrl);
  const role = `app_${Math.random().toString(36).slice(2)}`;
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  await cli.run(["migrate", "--store", database.url, "--rls", "--grant", role]);
  return { role, url: Object.assign(new URL(database.url), { username: role, password: "secret" }).href };
}

const AGE_MS = 900_000;

/** A holder that fell silent long ago, in a row that nobody has marked yet. */
async function silentHolder(database: FreshDatabase, store: Store, tenant: string): Promise<string> {
  const key = `nt1_silent_${tenant}`;
  const now = Math.floor(store.now());
  const record = sampleRecord({
    key,
    tenant,
    state: "sent",
    holder: "gone",
    createdAt: now - 1_000,
    dueAt: null,
    lease: { until: now - 1, epoch: "" },
  });
  const [result] = await store.write([{ record, expected: null }]);
  expect(result).toMatchObject({ ok: true });
  const admin = await connection(database.adminUrl);
  await admin.query("UPDATE nevertwice.records SET created_at = created_at - $1::bigint WHERE tenant = $2", [
    AGE_MS,
    tenant,
  ]);
  return key;
}

const lapsedOf = async (store: Store) =>
  (await store.list({ limit: 10, lapsed: true, states: ["sent"] })).items.map(({ record }) => record.key);

describe("the watch mark under row-level security", () => {
  it("one tenant's sweep hides no other tenant's silent holder", async () => {
    const database = await freshDatabase();
    const { url } = await roleUnderRls(database);
    const [a, b] = [open({ url, tenant: "a", rls: true }), open({ url, tenant: "b", rls: true })];
    const all = open({ url: database.url });
    const key = await silentHolder(database, b, "b");
    await a.sweep({ limit: 10 });
    expect(await lapsedOf(a)).toEqual([]);
    expect(await lapsedOf(b), "its own program").toEqual([key]);
    expect(await lapsedOf(all), "an operator who sees everything").toEqual([key]);
    expect((await b.stats()).lapsed).toBe(1);
    await b.sweep({ limit: 10 });
    await a.sweep({ limit: 10 });
    expect(await lapsedOf(b), "after its own sweep").toEqual([key]);
    expect(await lapsedOf(all)).toEqual([key]);
    await all.sweep({ limit: 10 });
    expect(await lapsedOf(b), "after a sweep of everything").toEqual([key]);
    expect(await lapsedOf(all)).toEqual([key]);
  });

  it("a sweep of everything marks what the tenants' own look for, and theirs goes on from there", async () => {
    const database = await freshDatabase();
    const { url } = await roleUnderRls(database);
    const [all, b] = [open({ url: database.url }), open({ url, tenant: "b", rls: true })];
    const first = await silentHolder(database, b, "b");
    await all.sweep({ limit: 10 });
    expect(await lapsedOf(b)).toEqual([first]);
    expect(await marks(database)).toEqual(["all"]);
    await b.sweep({ limit: 10 });
    expect(await marks(database)).toEqual(["all", "tenant:b"]);
    expect(await lapsedOf(b)).toEqual([first]);
  });

  it("a role that names no tenant sees nothing, and moves no mark", async () => {
    const database = await freshDatabase();
    const { url } = await roleUnderRls(database);
    const [nobody, b] = [open({ url }), open({ url, tenant: "b", rls: true })];
    const all = open({ url: database.url });
    const key = await silentHolder(database, b, "b");
    expect(await nobody.sweep({ limit: 10 })).toBe(0);
    expect(await lapsedOf(nobody)).toEqual([]);
    expect(await lapsedOf(b)).toEqual([key]);
    expect(await lapsedOf(all)).toEqual([key]);
  });

  it("a role whose tenant is a setting of its own is confined like one that names it", async () => {
    const database = await freshDatabase();
    const { role, url } = await roleUnderRls(database);
    const b = open({ url, tenant: "b", rls: true });
    const key = await silentHolder(database, b, "b");
    await (await connection(database.adminUrl)).query(`ALTER ROLE ${role} SET nevertwice.tenant = 'a'`);
    await open({ url }).sweep({ limit: 10 });
    expect(await lapsedOf(b)).toEqual([key]);
    expect(await lapsedOf(open({ url: database.url }))).toEqual([key]);
  });

  it("a tenant's role can move no other's mark", async () => {
    const database = await freshDatabase();
    const { url } = await roleUnderRls(database);
    await open({ url, tenant: "b", rls: true }).sweep({ limit: 10 });
    const thief = await connection(url);
    await thief.query("SET nevertwice.tenant = 'a'");
    for (const name of ["all", "tenant:b"]) {
      const moved = await thief.query("UPDATE nevertwice.watch SET watched_to = 9e15 WHERE name = $1", [name]);
      expect(moved.rowCount, name).toBe(0);
      await expect(
        thief.query("INSERT INTO nevertwice.watch VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET watched_to = 9e15", [
          name,
        ]),
      ).rejects.toThrow(/row-level security/);
    }
  });

  it("marks of tenants that sweep no more are forgotten by a sweep of everything", async () => {
    const database = await freshDatabase();
    const { url } = await roleUnderRls(database);
    for (const tenant of ["a", "b"]) await open({ url, tenant, rls: true }).sweep({ limit: 10 });
    expect(await marks(database)).toEqual(["tenant:a", "tenant:b"]);
    await (await connection(database.adminUrl)).query(
      "UPDATE nevertwice.watch SET watched_to = watched_to - 2 * 86400000::bigint WHERE name = 'tenant:a'",
    );
    await open({ url: database.url }).sweep({ limit: 10 });
    expect(await marks(database)).toEqual(["all", "tenant:b"]);
  });
});

it("a sweep confined by the store or by the query, which sees every row, marks every tenant's", async () => {
  const database = await freshDatabase();
  const [a, all] = [open({ url: database.url, tenant: "a" }), open({ url: database.url })];
  const key = await silentHolder(database, all, "b");
  await a.sweep({ limit: 10 });
  await all.sweep({ limit: 10, tenant: "a" });
  expect(await lapsedOf(all)).toEqual([key]);
  expect(await lapsedOf(open({ url: database.url, tenant: "b" }))).toEqual([key]);
  expect(await marks(database)).toEqual(["all"]);
});

it("a tenant's sweep removes what stands behind more than a statement looks at of another's, and a thorough one at once", async () => {
  const { url } = await freshDatabase();
  const store = open({ url });
  const now = Math.floor(store.now());
  const over = { tenant: "b", state: "confirmed", keepMs: 1_000, dueAt: null } as const;
  const own = (key: string) =>
    sampleRecord({ ...over, key, createdAt: now - 50_000, settledAt: 1, expiresAt: now - 40_000 });
  await store.write([{ record: own("nt1_own"), expected: null }]);
  const client = await connection(url);
  await client.query(
    `INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, expires_at, state)
     SELECT $1::bigint - 900000 + n, 1000, 1, 1, 1, false, sha256(n::text::bytea), 'a', 'send_followup', '{}', 1, $1::bigint, $1::bigint - 1, 'confirmed'
     FROM generate_series(1, 250000) n`,
    [now],
  );
  expect(await store.sweep({ limit: 10, tenant: "b", thorough: true })).toBe(1);
  await store.write([{ record: own("nt1_again"), expected: null }]);
  let removed = 0;
  for (let pass = 0; pass < 5 && removed === 0; pass += 1) removed = await store.sweep({ limit: 10, tenant: "b" });
  expect(removed).toBe(1);
  const { rows } = await client.query("SELECT count(*)::int AS n FROM nevertwice.records");
  expect(rows[0].n).toBe(250_000);
});

async function marks(database: FreshDatabase): Promise<string[]> {
  const admin = await connection(database.adminUrl);
  const { rows } = await admin.query("SELECT name FROM nevertwice.watch WHERE watched_to > 0 ORDER BY name");
  return rows.map(({ name }) => name);
}
