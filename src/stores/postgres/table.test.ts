/** What the table's design promises: cheap plain calls, and bounded answers however the rows lie. */
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { pooledLedger } from "../../../test/support/pooled-ledger.ts";
import type { PutResult, Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { SCHEMA_VERSION } from "./sql/schema.ts";

const put = async (store: Store, record: ReturnType<typeof sampleRecord>) => {
  const [result] = await store.write([{ record, expected: null }]);
  if (!result?.ok) throw new Error("not written");
  return result.version;
};

it("claim and confirm are an insert and a HOT update: no index is touched twice", async () => {
  const { url } = await freshDatabase();
  const nt = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false });
  const send = nt.action("send", { key: ["id"], run: async ({ id }: { id: number }) => ({ sent: id }) });
  await Promise.all(Array.from({ length: 400 }, (_, id) => send({ id })));
  for (let id = 1_000; id < 1_040; id += 1) await send({ id });
  // A session reports its counts at its end.
  await nt.close();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  const counts = async () => {
    const { rows } = await client.query(
      "SELECT n_tup_upd::int AS updates, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'records'",
    );
    return rows[0];
  };
  await expect.poll(async () => (await counts()).updates, { timeout: 30_000 }).toBe(440);
  expect((await counts()).hot).toBeGreaterThan(400);
});

it("a repeat costs one round trip, and none where it was repeated before", async () => {
  const { url } = await freshDatabase();
  let statements = 0;
  class Counting extends pg.Client {
    override query = ((...args: never[]) => {
      statements += 1;
      return (pg.Client.prototype.query as (...all: never[]) => unknown).apply(this, args);
    }) as pg.Client["query"];
  }
  const program = (pool: pg.Pool) => {
    const nt = nevertwice({ store: postgresStore({ pool, listen: false }), sweep: false });
    onTestFinished(async () => {
      await nt.close();
      await pool.end();
    });
    return nt.action("send", { key: ["id"], run: async ({ id }: { id: number }) => id });
  };
  const first = program(new pg.Pool({ connectionString: url, max: 2 }));
  for (let id = 0; id < 80; id += 1) await first({ id });
  const again = program(new pg.Pool({ connectionString: url, max: 2, Client: Counting }));
  // After some repeats it expects them, and looks before it claims.
  for (let id = 0; id < 60; id += 1) await again({ id });
  statements = 0;
  for (let id = 60; id < 80; id += 1) expect(await again.attempt({ id })).toMatchObject({ replayed: true });
  expect(statements).toBe(20);
  for (let id = 60; id < 80; id += 1) expect(await again.attempt({ id })).toMatchObject({ replayed: true });
  expect(statements).toBe(20);
});

it("a settle does not send or store a large input again", async () => {
  const { pool, store } = await pooledLedger(6);
  const nt = nevertwice({ store, sweep: false });
  const send = nt.action("send", { key: ["id"], run: async (_: { id: number; body: string }) => "ok" });
  // Random, so that TOAST cannot press it together.
  const body = Buffer.from(Array.from({ length: 90_000 }, () => Math.floor(Math.random() * 256))).toString("base64");
  const { key } = await send.attempt({ id: 1, body });
  const toast = async () =>
    Number(
      (
        await pool.query(
          "SELECT pg_relation_size(reltoastrelid) AS size FROM pg_class WHERE oid = 'nevertwice.records'::regclass",
        )
      ).rows[0].size,
    );
  expect(await toast()).toBeLessThan(1.5 * body.length);
  expect((await store.read([key]))[0]?.record.input).toEqual({ json: JSON.stringify({ id: 1, body }) });
});

it("claims older than their youth are found by their holders' silence, whatever their age", async () => {
  const { pool, store } = await pooledLedger(6);
  const now = store.now();
  const lease = { until: now - 1_000, epoch: "" };
  const silent = (key: string, createdAt: number) =>
    sampleRecord({ key, state: "sent", lease, createdAt, dueAt: null, holder: "gone", attempt: 1, fence: 1 });
  await put(store, silent("nt1_young", now - 5_000));
  await put(store, silent("nt1_older", now - 100_000));
  // As a claim that was young when it was written, and then nobody looked for days.
  await put(store, silent("nt1_oldest", now - 5_000));
  await pool.query("UPDATE nevertwice.records SET created_at = created_at - 900000 WHERE key = $1", [
    Buffer.from("\0nt1_oldest"),
  ]);
  const lapsed = async () =>
    (await store.list({ limit: 10, lapsed: true })).items.map(({ record }) => record.key).sort();
  const all = ["nt1_older", "nt1_oldest", "nt1_young"];
  expect(await lapsed()).toEqual(all);
  await store.sweep({ limit: 10 });
  const { rows } = await pool.query(
    "SELECT attention, convert_from(substr(key, 2), 'UTF8') AS key FROM nevertwice.records ORDER BY key",
  );
  expect(rows).toEqual([
    { attention: "leased", key: "nt1_older" },
    { attention: "leased", key: "nt1_oldest" },
    { attention: null, key: "nt1_young" },
  ]);
  expect(await lapsed()).toEqual(all);
  expect((await store.stats()).lapsed).toBe(3);
});

it("a server whose clock was set back loses sight of no claim", async () => {
  const { pool, store } = await pooledLedger(6);
  const now = store.now();
  await pool.query("INSERT INTO nevertwice.watch (name, watched_to) VALUES ('all', $1::bigint)", [
    Math.floor(now + 3_600_000),
  ]);
  const lease = { until: now - 1, epoch: "" };
  await put(store, sampleRecord({ state: "sent", lease, createdAt: now - 1_000, dueAt: null }));
  expect((await store.list({ limit: 10, lapsed: true })).items).toHaveLength(1);
  await store.sweep({ limit: 1 });
  const { rows } = await pool.query("SELECT watched_to FROM nevertwice.watch WHERE name = 'all'");
  expect(Number(rows[0].watched_to)).toBeLessThan(now);
});

it("a sweep leaves alone what was taken again meanwhile", async () => {
  const { pool, store } = await pooledLedger(6);
  const now = store.now();
  const over = sampleRecord({
    state: "confirmed",
    createdAt: now - 200_000,
    settledAt: now - 200_000,
    keepMs: 0,
    expiresAt: now - 100_000,
  });
  const version = await put(store, over);
  const holder = await pool.connect();
  await holder.query("BEGIN");
  await holder.query("UPDATE nevertwice.records SET state = 'sent', expires_at = NULL, rev = rev + 1");
  const sweeping = store.sweep({ limit: 10 });
  await new Promise((done) => setTimeout(done, 100));
  await holder.query("COMMIT");
  holder.release();
  expect(await sweeping).toBe(0);
  expect((await store.read([over.key]))[0]).toMatchObject({ version: version + 1, record: { state: "sent" } });
});

it("doctor learns what server it is and what it survives", async () => {
  const { store } = await pooledLedger(6);
  const findings = new Map((await store.inspect?.())?.map((finding) => [finding.name, finding]));
  expect(findings.get("server")).toMatchObject({ value: expect.stringMatching(/^PostgreSQL 1\d.*primary$/), ok: true });
  expect(findings.get("commit")).toMatchObject({
    value: expect.stringContaining("survives a crash and power loss"),
    ok: true,
  });
  expect(findings.get("failover")).toMatchObject({
    value: expect.stringContaining("no synchronous standby"),
    ok: true,
  });
  expect(findings.get("schema")).toMatchObject({ value: `nevertwice, version ${SCHEMA_VERSION} of ${SCHEMA_VERSION}` });
  expect([...findings.values()].every(({ ok }) => ok)).toBe(true);
});

it("batches of many processes over the same rows, in any order: nobody deadlocks, no swap is lost", async () => {
  const { pool, store } = await pooledLedger(6);
  const stores = [store, ...[1, 2, 3].map(() => postgresStore({ pool, listen: false }))];
  const keys = Array.from({ length: 30 }, (_, i) => `nt1_${i}`);
  let swaps = 0;
  const first = new Map<string, number>();
  const worker = async (own: Store, seed: number) => {
    let versions = new Map<string, number | null>();
    for (let round = 0; round < 25; round += 1) {
      const some = keys.filter((_, i) => (i * 7 + round * 5 + seed) % 3 !== 0).sort(() => Math.random() - 0.5);
      const results = await own.write(
        some.map((key) => ({
          record: sampleRecord({ key, state: "claimed", dueAt: null, holder: `${seed}`, fence: round }),
          expected: versions.get(key) ?? null,
        })),
      );
      for (const [i, result] of results.entries()) {
        if (!result.ok) continue;
        if ((versions.get(some[i] as string) ?? null) === null) first.set(some[i] as string, result.version);
        else swaps += 1;
      }
      versions = new Map(some.map((key, i) => [key, versionAfter(results[i] as PutResult)]));
    }
  };
  await Promise.all(stores.map((own, seed) => worker(own, seed)));
  // Each won swap raised one row's revision by one, and nothing else did.
  const raised = (await store.read(keys)).map((row) => (row?.version ?? 0) - (first.get(row?.record.key ?? "") ?? 0));
  expect(raised.reduce((sum, one) => sum + one, 0)).toBe(swaps);
  expect(swaps).toBeGreaterThan(100);
  const { rows: deadlocks } = await pool.query(
    "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()",
  );
  expect(deadlocks[0].deadlocks).toBe(0);
});

function versionAfter(result: PutResult): number | null {
  return result.ok ? result.version : (result.current?.version ?? null);
}
