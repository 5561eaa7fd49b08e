/** How the server finds rows: what is looked for again and again walks an index, however large the table is. */
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { pooledLedger } from "../../../test/support/pooled-ledger.ts";
import type { LeaseQuery } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { keyHex } from "./sql/key.ts";
import { leaseDue, leaseLapsed } from "./sql/lease.ts";
import { LeaseFloor } from "./sql/lease-floor.ts";
import { readRows } from "./sql/read.ts";
import { sweepStatement, watchStatement } from "./sql/sweep.ts";
import { batchWrite, planPut, type Statement } from "./sql/write.ts";
import { uniformRead } from "./supabase/uniform.ts";
import { LARGE_BYTES } from "./swaps.ts";

const TABLES = { table: "nevertwice.records", watch: "nevertwice.watch" };
const DAY_MS = 86_400_000;

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Shared Hit Blocks"?: number;
  readonly "Shared Read Blocks"?: number;
  readonly Plans?: readonly Plan[];
}

function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

async function ledger() {
  const { pool, store } = await pooledLedger(4);
  /** `how`: with ANALYZE it is run, and taken back. */
  const explain = async ({ text, values }: Statement, how = "") => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const { rows } = await client.query(`EXPLAIN (FORMAT JSON${how}) ${text}`, values as string[]);
      return nodesOf(rows[0]["QUERY PLAN"][0].Plan);
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  };
  return { pool, store, explain };
}

/** Rows of two actions, of which `over` in a hundred are past their keep. */
async function fill(pool: pg.Pool, now: number, over: number): Promise<void> {
  await pool.query(
    `INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, expires_at, state)
     SELECT at, $3::bigint, 1, 1, 1, false, sha256(n::text::bytea), '', 'mail-' || n % 2, '{}', 1, at, at + $3::bigint, 'confirmed'
     FROM generate_series(1, 40000) n, LATERAL (SELECT CASE WHEN n % 100 < $2::int THEN $1::bigint - 2 * $3::bigint ELSE $1::bigint END - n AS at) l`,
    [now, over, DAY_MS],
  );
  await pool.query("ANALYZE nevertwice.records");
}

it.each([1, 50, 100])(
  "a sweep of a table with %i in 100 rows past their keep walks an index, and reads no table whole",
  async (over) => {
    const { pool, store, explain } = await ledger();
    const now = store.now();
    await fill(pool, now, over);
    const statements = {
      sweep: sweepStatement(TABLES, { limit: 1_000, now, tenant: undefined, from: 0 }),
      "sweep of a tenant": sweepStatement(TABLES, { limit: 1_000, now, tenant: "acme", from: 0 }),
      "watch of old claims": watchStatement(TABLES, now),
    };
    for (const [name, statement] of Object.entries(statements)) {
      const nodes = (await explain(statement)).filter((node) => node["Relation Name"] === "records");
      expect(
        nodes.map((node) => node["Node Type"]),
        name,
      ).not.toContain("Seq Scan");
      expect(
        nodes.map((node) => node["Index Name"]),
        name,
      ).toContain("records_created");
    }
    expect(await store.sweep({ limit: 2_000 })).toBe(Math.min(2_000, over * 400));
  },
);

it("a settle or a read of 128 rows looks each up by the index from the size on at which its plan is kept", async () => {
  const { pool, store, explain } = await ledger();
  const now = store.now();
  const rows = Math.ceil(LARGE_BYTES / 600);
  await pool.query(
    `INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, expires_at, state)
     SELECT $1::bigint, $2::bigint, 1, 1, 1, false, sha256(n::text::bytea), '', 'mail', repeat('x', 150), 1, $1::bigint, $1::bigint, 'confirmed'
     FROM generate_series(1, $3::int) n`,
    [now, DAY_MS, rows],
  );
  const { rows: sizes } = await pool.query("SELECT pg_relation_size('nevertwice.records')::int AS bytes");
  expect(sizes[0].bytes).toBeGreaterThanOrEqual(LARGE_BYTES);
  expect(sizes[0].bytes).toBeLessThan(1.5 * LARGE_BYTES);
  const settles = Array.from({ length: 128 }, (_, i) => {
    const record = sampleRecord({ key: `nt1_${i}` });
    return planPut({ record: { ...record, fence: 9 }, expected: 1, before: record }, { hex: keyHex(record.key), now });
  });
  const named = (tenant?: string) => settles.map(({ hex }) => ({ hex, tenant }));
  const settle = batchWrite(TABLES.table, settles, now, false);
  const reads = [named(), named("")].flatMap((names) => [
    readRows(TABLES.table, names),
    uniformRead(TABLES.table, names),
  ]);
  const scansOf = async (statement: Statement) => {
    const nodes = (await explain(statement)).filter((node) => node["Relation Name"] === "records");
    return nodes.map((node) => node["Node Type"]).filter((type) => type.endsWith("Scan"));
  };
  for (const analysed of [false, true]) {
    if (analysed) await pool.query("ANALYZE nevertwice.records");
    expect(await scansOf(settle)).toEqual(["Index Scan"]);
    for (const read of reads)
      expect([["Index Scan"], ["Bitmap Heap Scan"]], read.text).toContainEqual(await scansOf(read));
  }
});

it.each([0, 1, 50])(
  "a lease's plan that is kept walks the index of due work, with %i in 100 rows of the table queued when it was made",
  async (queued) => {
    const { pool, store } = await ledger();
    const now = store.now();
    await fill(pool, now, 0);
    await pool.query(
      `UPDATE nevertwice.records SET state = 'pending', queued = true, attention = 'queued', attention_at = created_at
       WHERE created_at % 100 < $1::int`,
      [queued],
    );
    await pool.query("VACUUM ANALYZE nevertwice.records");
    const query = { holder: "w", limit: 256, leaseMs: 60_000, to: "sent", actions: ["mail-0", "mail-1"] } as const;
    const { text, values } = leaseDue(TABLES, query, now);
    const client = await pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("SET plan_cache_mode = force_generic_plan");
    await client.query(`PREPARE kept AS ${text}`);
    const given = values.map((value) => pg.escapeLiteral(value as string)).join(", ");
    const { rows } = await client.query(`EXPLAIN (FORMAT JSON) EXECUTE kept(${given})`);
    const nodes = nodesOf(rows[0]["QUERY PLAN"][0].Plan);
    const onRecords = nodes.filter((node) => node["Relation Name"] === "records").map((node) => node["Node Type"]);
    expect(onRecords.toSorted()).toEqual(["Index Scan", "ModifyTable", "Tid Scan"]);
    expect(nodes.map((node) => node["Index Name"])).toContain("records_attention");
    expect(nodes.map((node) => node["Node Type"])).not.toContain("Sort");
  },
);

it("what silent holders left of the queue is found in the index of what wants attention, not among the young", async () => {
  const { pool, store, explain } = await ledger();
  const now = store.now();
  await fill(pool, now, 0);
  const claim = { state: "claimed", queued: true, holder: "gone", lease: { until: now - 1, epoch: "" } } as const;
  const silent = sampleRecord({ key: "nt1_silent", ...claim, createdAt: now - 10, updatedAt: now - 10 });
  await store.write([{ record: silent, expected: null }]);
  await pool.query("ANALYZE nevertwice.records");
  const query = { holder: "w", limit: 10, leaseMs: 60_000, to: "sent" } as const satisfies LeaseQuery;
  const nodes = await explain(leaseLapsed(TABLES, query, now));
  const onRecords = nodes.filter((node) => node["Relation Name"] === "records").map((node) => node["Node Type"]);
  expect(onRecords.toSorted()).toEqual(["Index Scan", "ModifyTable", "Tid Scan"]);
  expect(nodes.map((node) => node["Index Name"])).toContain("records_attention");
  expect((await store.lease(query)).map(({ record }) => record.key)).toEqual(["nt1_silent"]);
});

it("F47: while a snapshot keeps vacuum away, a lease does not step over everything that was handed out before", async () => {
  const { pool, store, explain } = await ledger();
  const holder = await pool.connect();
  onTestFinished(() => holder.release());
  await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM nevertwice.records");
  const query = { holder: "w", limit: 100, leaseMs: 60_000, to: "sent" } as const satisfies LeaseQuery;
  const [first, count] = [store.now() - 100_000, 3_000];
  for (let from = 0; from < count; from += 500) {
    const records = Array.from({ length: 500 }, (_, i) =>
      sampleRecord({ key: `nt1_${from + i}`, state: "pending", queued: true, dueAt: first + from + i }),
    );
    await store.write(records.map((record) => ({ record, expected: null })));
  }
  const handedOut: string[] = [];
  for (let rows = 1; handedOut.length < count - query.limit && rows > 0; ) {
    const leased = await store.lease(query);
    rows = leased.length;
    handedOut.push(...leased.map(({ record }) => record.key));
  }
  // The longest due first, each once.
  expect(handedOut).toEqual(Array.from({ length: count - query.limit }, (_, i) => `nt1_${i}`));

  const now = store.now();
  const blocks = async (from?: number) => {
    const nodes = await explain(leaseDue(TABLES, query, now, from), ", ANALYZE, BUFFERS");
    const scan = nodes.find((node) => node["Index Name"] === "records_attention");
    return (scan?.["Shared Hit Blocks"] ?? Number.NaN) + (scan?.["Shared Read Blocks"] ?? Number.NaN);
  };
  const [fromTheBeginning, goingOn] = [await blocks(), await blocks(first + handedOut.length - 1)];
  expect(goingOn).toBeLessThan(fromTheBeginning / 5);
  await holder.query("ROLLBACK");
});

it("F47: a lease goes on where a full one ended, and looks from the beginning twice a second", () => {
  const floor = new LeaseFloor();
  const [mail, other] = [["mail"], ["other"]].map(
    (actions): LeaseQuery => ({ holder: "w", limit: 10, leaseMs: 1_000, to: "sent", actions }),
  ) as [LeaseQuery, LeaseQuery];
  expect(floor.of(mail, 1_000)).toBeNull();
  floor.reached(mail, 50, null, 1_000);
  expect(floor.of(mail, 1_001)).toBe(50);
  expect(floor.of(other, 1_001)).toBeNull();
  // What goes on does not put off the look from the beginning.
  floor.reached(mail, 70, 50, 1_400);
  expect(floor.of(mail, 1_499)).toBe(70);
  expect(floor.of(mail, 1_500)).toBeNull();
  floor.reached(mail, 10, null, 1_500);
  expect(floor.of(mail, 1_501)).toBe(10);
  floor.forget(mail);
  expect(floor.of(mail, 1_502)).toBeNull();
});
