/** Migrations: once, by whoever may, and never over a newer one. Tenants: each behind its own wall. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import type { Store } from "../../../core/store.ts";
import { sampleRecord } from "../../../testing/index.ts";
import { SCHEMA_VERSION } from "./schema.ts";

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

/** A role that may log in, and nothing else. */
async function plainRole(database: { adminUrl: string; url: string }): Promise<{ role: string; url: string }> {
  const admin = await connection(database.adminUrl);
  const role = `app_${Math.random().toString(36).slice(2)}`;
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  return { role, url: Object.assign(new URL(database.url), { username: role, password: "secret" }).href };
}

describe("migrations", () => {
  it("ten processes that start at once migrate once", async () => {
    const { url } = await freshDatabase();
    const program = `
      import { nevertwice } from ${JSON.stringify(fileURLToPath(new URL("../../../../dist/index.js", import.meta.url)))};
      const nt = nevertwice({ store: process.argv[1], sweep: false });
      await nt.once("start", [process.pid], () => 1);
      await nt.close();`;
    const codes = await Promise.all(
      Array.from({ length: 10 }, () => {
        const child = spawn(process.execPath, ["--input-type=module", "-e", program, url], { stdio: "inherit" });
        return new Promise((done) => child.once("exit", done));
      }),
    );
    expect(codes).toEqual(Array(10).fill(0));
    expect((await open({ url }).stats()).states.confirmed).toBe(10);
  });

  it("manual: a missing schema is an error that names the command, which makes it", async () => {
    const { url } = await freshDatabase();
    await expect(open({ url, migrate: "manual" }).read(["x"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringContaining("nevertwice migrate"),
    });
    // The command itself only looks, too.
    expect(await cli.run(["ls", "--store", url])).toMatchObject({ code: 3, err: expect.stringContaining("migrate") });

    const dry = await cli.run(["migrate", "--dry-run", "--store", url]);
    expect(dry).toMatchObject({ code: 0, out: expect.stringContaining('CREATE TABLE "nevertwice".records') });
    await expect(open({ url, migrate: "manual" }).read(["x"])).rejects.toMatchObject({ code: "CONFIG" });

    expect(await cli.run(["migrate", "--store", url])).toMatchObject({
      code: 0,
      out: expect.stringContaining("now at"),
    });
    expect(await cli.run(["migrate", "--store", url])).toMatchObject({ out: expect.stringContaining("up to date") });
    expect(await open({ url, migrate: "manual" }).read(["x"])).toEqual([null]);
    expect(await cli.run(["ls", "--store", url])).toMatchObject({ code: 0 });
  });

  it("the dumped SQL makes the same ledger, in a schema of one's own", async () => {
    const { url } = await freshDatabase();
    const { out } = await cli.run(["migrate", "--dump-sql", "--schema", 'odd "name"', "--rls"]);
    await (await connection(url)).query(out);
    const store = open({ url, schema: 'odd "name"', migrate: "manual", tenant: "a", rls: true });
    expect(await store.read(["x"])).toEqual([null]);
  });

  it("migrate --rls replaces policies that took an empty setting for a tenant", async () => {
    const { url } = await freshDatabase();
    await cli.run(["migrate", "--store", url, "--rls"]);
    const admin = await connection(url);
    const old = "tenant = current_setting('nevertwice.tenant', true)";
    await admin.query(`ALTER POLICY nevertwice_tenant ON nevertwice.records USING (${old}) WITH CHECK (${old})`);
    await cli.run(["migrate", "--store", url, "--rls"]);
    const { rows } = await admin.query(
      "SELECT qual, with_check FROM pg_policies WHERE policyname = 'nevertwice_tenant'",
    );
    expect(rows).toHaveLength(2);
    for (const { qual, with_check } of rows) for (const one of [qual, with_check]) expect(one).toMatch(/nullif/i);
    expect((await cli.run(["migrate", "--store", url, "--rls"])).out).toMatch(/up to date|nothing/i);
  });

  it("a separate migrator role: the program's own needs no right to create", async () => {
    const database = await freshDatabase();
    const { role, url } = await plainRole(database);
    await expect(open({ url }).read(["x"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/may not make it.*nevertwice migrate.*GRANT/s),
    });
    await cli.run(["migrate", "--store", database.url]);
    await expect(open({ url }).read(["x"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringContaining("GRANT USAGE"),
    });
    await cli.run(["migrate", "--store", database.url, "--grant", role]);
    const store = open({ url });
    await store.write([{ record: sampleRecord(), expected: null }]);
    expect(await store.sweep({ limit: 10 })).toBe(0);
    expect((await store.stats()).total).toBe(1);
  });

  it("F46: a newer schema is refused, unless it says that this release can still read it", async () => {
    const { url } = await freshDatabase();
    await open({ url }).read(["x"]);
    const client = await connection(url);
    const set = (name: string, value: number) =>
      client.query("UPDATE nevertwice.meta SET value = $2 WHERE name = $1", [name, String(value)]);
    await set("schema_version", SCHEMA_VERSION + 1);
    expect(await open({ url }).read(["x"])).toEqual([null]);
    await set("readable_since", SCHEMA_VERSION + 1);
    await expect(open({ url }).read(["x"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(/newer nevertwice.*left untouched/s),
    });
  });

  it("two schemas in one database are two ledgers, also by ?schema= in the URL", async () => {
    const { url } = await freshDatabase();
    const [one, two] = [open({ url }), open({ url: `${url}?schema=other` })];
    await one.write([{ record: sampleRecord(), expected: null }]);
    expect(await two.read(["nt1_sample"])).toEqual([null]);
    expect(await open({ url, schema: "other" }).read(["nt1_sample"])).toEqual([null]);
  });

  it("migrate says what it is for where the ledger is elsewhere", async () => {
    expect(await cli.run(["migrate"])).toMatchObject({ code: 2, err: expect.stringContaining("--store postgres://") });
    expect(await cli.run(["migrate", "--dry-run", "--dump-sql"])).toMatchObject({ code: 2 });
  });
});

describe("tenants", () => {
  it("A presents B's exact input and B's key, and gets a miss", async () => {
    const { url } = await freshDatabase();
    const of = (tenant: string) => {
      const nt = nevertwice({ store: open({ url, tenant }), tenant, sweep: false });
      const runs: string[] = [];
      const send = nt.action("send", { key: ["id"], run: async (_: Record<string, unknown>) => runs.push(tenant) });
      return { nt, send, runs };
    };
    const [a, b] = [of("a"), of("b")];
    const done = await b.send.attempt({ id: 1 });
    expect(await a.send.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await a.nt.status({ key: done.key })).toMatchObject({ status: "absent" });
    await expect(a.nt.resolve({ key: done.key }, { as: "not-done", by: "a", reason: "mine" })).rejects.toThrow();
    expect(await a.send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: false });
    expect([a.runs, b.runs]).toEqual([["a"], ["b"]]);
    const store = a.nt.store;
    expect((await store.list({ limit: 10 })).items.map(({ record }) => record.tenant)).toEqual(["a"]);
    expect((await store.stats()).total).toBe(1);
    await expect(store.list({ limit: 1, tenant: "b" })).rejects.toMatchObject({ code: "CONFIG" });
    await expect(store.write([{ record: sampleRecord({ tenant: "b" }), expected: null }])).rejects.toMatchObject({
      code: "CONFIG",
    });
  });

  it("the tenant is part of the primary key: a forged row under B's key neither hides nor replaces B's", async () => {
    const { url } = await freshDatabase();
    const [a, b] = [open({ url, tenant: "a" }), open({ url, tenant: "b" })];
    const own = sampleRecord({ tenant: "b", holder: "b" });
    await b.write([{ record: own, expected: null }]);
    const [forged] = await a.write([{ record: sampleRecord({ tenant: "a", holder: "a" }), expected: null }]);
    expect(forged).toMatchObject({ ok: true });
    expect((await b.read([own.key]))[0]?.record).toEqual(own);
    // Who asks without a tenant is told, rather than given either.
    await expect(open({ url }).read([own.key])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });

  it("row-level security: a role that goes past the store sees only what its transaction names", async () => {
    const database = await freshDatabase();
    const { role, url } = await plainRole(database);
    await cli.run(["migrate", "--store", database.url, "--rls", "--grant", role]);
    const [a, b] = [open({ url, tenant: "a", rls: true }), open({ url, tenant: "b", rls: true })];
    const put = (tenant: string) => ({ record: sampleRecord({ tenant, key: `nt1_${tenant}` }), expected: null });
    await a.write([put("a")]);
    await b.write([put("b")]);
    expect(await a.read(["nt1_a", "nt1_b"])).toEqual([expect.anything(), null]);
    expect((await a.list({ limit: 10 })).items).toHaveLength(1);
    expect((await a.stats()).total).toBe(1);
    const [won] = await a.write([
      { record: { ...put("a").record, fence: 1 }, expected: (await a.read(["nt1_a"]))[0]?.version ?? 0 },
    ]);
    expect(won).toMatchObject({ ok: true });

    const thief = await connection(url);
    const seen = async () => (await thief.query("SELECT tenant FROM nevertwice.records")).rows.map((row) => row.tenant);
    expect(await seen()).toEqual([]);
    await thief.query("SET nevertwice.tenant = 'a'");
    expect(await seen()).toEqual(["a"]);
    await expect(thief.query("UPDATE nevertwice.records SET tenant = 'b'")).rejects.toThrow(/row-level security/);
    expect((await thief.query("DELETE FROM nevertwice.records WHERE tenant = 'b'")).rowCount).toBe(0);
    // A store that forgets to name its tenant gets nothing, never everything.
    expect((await open({ url }).list({ limit: 10 })).items).toEqual([]);
  });

  it("row-level security in the caller's own transactions, one after the other on one connection", async () => {
    const database = await freshDatabase();
    const { role, url } = await plainRole(database);
    await cli.run(["migrate", "--store", database.url, "--rls", "--grant", role]);
    const nt = nevertwice({ store: open({ url, tenant: "a", rls: true }), tenant: "a", sweep: false });
    const client = await connection(url);
    for (const id of [1, 2]) {
      await client.query("BEGIN");
      expect(await nt.once("order", [id], () => id, { tx: client })).toBe(id);
      await client.query("COMMIT");
      // Forgotten with the transaction.
      expect((await client.query("SELECT count(*)::int AS n FROM nevertwice.records")).rows[0].n).toBe(0);
    }
    expect((await nt.store.stats()).total).toBe(2);
  });

  it("row-level security through PgBouncer: the tenant is named in each transaction, not in the session", async () => {
    const database = await freshDatabase();
    const stores = ["a", "b"].map((tenant) => open({ url: database.pgbouncerUrl, tenant, rls: true }));
    for (const store of stores) await store.read(["x"]);
    const keys = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const tenant = i % 2 ? "b" : "a";
        const record = sampleRecord({ tenant, key: `nt1_${i}` });
        await (stores[i % 2] as Store).write([{ record, expected: null }]);
        return record.key;
      }),
    );
    const seen = await Promise.all(stores.map((store) => store.read(keys)));
    expect(seen.map((rows) => rows.filter((row) => row !== null).length)).toEqual([20, 20]);
  });
});
