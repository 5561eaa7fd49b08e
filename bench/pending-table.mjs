// node bench/pending-table.mjs [--quick]: does queued work lie better in the ledger's own table, or in a narrow one beside it?
// Plain SQL that mirrors the store's statements, on rows that the store itself made; one private server, the two in turns.
import { performance } from "node:perf_hooks";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { startAll } from "../scripts/services/start-all.mjs";
import { middle, table } from "./measure.mjs";
import { ask, inDatabase } from "./own-database.mjs";

const QUICK = process.argv.includes("--quick");
const INTENTS = QUICK ? 40_000 : 200_000;
const ROUNDS = 3;
// As the store and a busy worker have it: rows of an enqueue, of a lease and of a settle, and how many are under way.
const [ENQUEUE_ROWS, LEASE_ROWS, SETTLE_ROWS, AT_ONCE] = [500, 256, 128, 2];

/** What a lease and a settle do to the record, wherever the queue is. */
const LEASED = `rev = r.rev + 1, state = 'sent', attempt = r.attempt + 1, fence = r.fence + 1, tries = r.tries + 1, holder = 'worker',
  lease_until = $1::bigint + 60000, updated_at = $1::bigint, first_sent_at = $1::bigint, last_sent_at = $1::bigint, sent_mark = 'same'`;
const RETURNED = "RETURNING p.since::text, r.key, r.rev, r.doc, r.input, r.created_at, r.fence, r.attempt";
const SETTLE = `UPDATE nevertwice.records r SET rev = r.rev + 1, state = 'confirmed', lease_until = NULL, updated_at = $2::bigint,
  expires_at = $2::bigint + r.keep_ms, fate = t.fate, result = t.result
FROM unnest($1::bytea[]) k(key), settled t WHERE r.key = k.key AND r.tenant = '' AND r.state = 'sent'`;

const SIDES = {
  "in the ledger's own table": {
    prepare: () => [],
    enqueue: (columns) => `INSERT INTO nevertwice.records (${columns.join(", ")})
SELECT ${columns.map((name) => ({ key: "k.key", attention_at: "k.due" })[name] ?? `t.${name}`).join(", ")}
FROM unnest($1::bytea[], $2::bigint[]) k(key, due), queued t ON CONFLICT DO NOTHING`,
    lease: `WITH p AS MATERIALIZED (
  SELECT ctid AS id, attention_at AS since FROM nevertwice.records
  WHERE attention = 'queued' AND attention_at <= $1::bigint AND attention_at >= $2::bigint AND queued
    AND (expires_at IS NULL OR expires_at > $1::bigint) AND action = ANY($3::text[])
  ORDER BY attention_at LIMIT ${LEASE_ROWS} FOR NO KEY UPDATE SKIP LOCKED)
UPDATE nevertwice.records r SET ${LEASED}, attention = NULL, attention_at = NULL FROM p WHERE r.ctid = p.id ${RETURNED}`,
  },
  "in a narrow table beside it": {
    prepare: () => [
      `CREATE TABLE nevertwice.due (due bigint NOT NULL, action text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, key bytea NOT NULL)
       WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)`,
      "CREATE INDEX due_due ON nevertwice.due (due, action)",
    ],
    enqueue: (columns) => `WITH made AS (
  INSERT INTO nevertwice.records (${columns.join(", ")})
  SELECT ${columns.map((name) => ({ key: "k.key", attention: "NULL", attention_at: "NULL" })[name] ?? `t.${name}`).join(", ")}
  FROM unnest($1::bytea[]) k(key), queued t ON CONFLICT DO NOTHING RETURNING key, tenant, action)
INSERT INTO nevertwice.due (due, action, tenant, key)
SELECT k.due, m.action, m.tenant, m.key FROM made m JOIN unnest($1::bytea[], $2::bigint[]) k(key, due) ON k.key = m.key`,
    lease: `WITH picked AS MATERIALIZED (
  SELECT ctid AS id FROM nevertwice.due WHERE due <= $1::bigint AND due >= $2::bigint AND action = ANY($3::text[])
  ORDER BY due LIMIT ${LEASE_ROWS} FOR UPDATE SKIP LOCKED),
p AS (DELETE FROM nevertwice.due d USING picked WHERE d.ctid = picked.id RETURNING d.key, d.tenant, d.due AS since)
UPDATE nevertwice.records r SET ${LEASED} FROM p
WHERE r.key = p.key AND r.tenant = p.tenant AND r.state = 'pending' AND (r.expires_at IS NULL OR r.expires_at > $1::bigint) ${RETURNED}`,
  },
};

const { addresses, close } = await startAll(["postgres"]);
const { NEVERTWICE_TEST_POSTGRES: url, NEVERTWICE_TEST_POSTGRES_ADMIN: admin } = addresses;
try {
  const results = Object.fromEntries(Object.keys(SIDES).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1)
    for (const name of Object.keys(SIDES))
      results[name].push(await inDatabase(url, (own) => measure(SIDES[name], own, admin ?? url)));
  report(results);
} finally {
  await close();
}

async function measure(side, url, admin) {
  await ourRows(url);
  const pool = new pg.Pool({ connectionString: url, max: AT_ONCE, options: "-c jit=off" });
  // Due work is read in the index's order and records are looked up by their keys, one by one, on both sides alike: what is
  // compared is where the queue lies, not how the planner guesses.
  const options = ["jit", "enable_hashjoin", "enable_mergejoin", "enable_sort", "enable_bitmapscan"]
    .map((name) => `-c ${name}=off`)
    .join(" ");
  const worker = new pg.Pool({ connectionString: url, max: AT_ONCE, options });
  const one = async (text) => (await pool.query(text)).rows[0];
  for (const text of side.prepare()) await pool.query(text);
  const { rows } = await pool.query(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'nevertwice' AND table_name = 'records'",
  );
  const enqueueText = side.enqueue(rows.map(({ name }) => name));
  const phase = async (work) => {
    // Each phase begins behind a checkpoint, so that both log as many whole pages.
    await ask(admin, "CHECKPOINT");
    const before = await one("SELECT pg_current_wal_lsn() AS at");
    const times = [];
    await work(async (batch) => {
      const startedAt = performance.now();
      const answer = await batch();
      times.push(performance.now() - startedAt);
      return answer;
    });
    const { bytes } = await one(`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '${before.at}')::float AS bytes`);
    return { ms: middle(times), wal: bytes / INTENTS };
  };
  const enqueue = await phase((timed) => inBatches(pool, enqueueText, timed));
  await pool.query("ANALYZE");
  const drain = await phase((timed) => drained(worker, side.lease, timed));
  const { left } = await one("SELECT count(*)::int AS left FROM nevertwice.records WHERE state <> 'confirmed'");
  if (left > 0) throw new Error(`${left} records were left over: the two sides do not do the same`);
  const sizes = await one(
    `SELECT sum(pg_relation_size(c.oid))::float / 1e6 AS heap, sum(pg_indexes_size(c.oid))::float / 1e6 AS indexes,
       sum(s.n_tup_hot_upd)::float / sum(s.n_tup_upd) AS hot
     FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE c.relname IN ('records', 'due')`,
  );
  await Promise.all([pool.end(), worker.end()]);
  return { enqueue, drain, sizes };
}

/** The store's own table, and from it a queued and a settled row to copy. */
async function ourRows(url) {
  const nt = nevertwice({ store: url, sweep: false });
  const mail = nt.action("mail", { key: ["id"], run: async () => ({ id: "msg_1" }) });
  await mail.enqueue({ id: "queued" });
  await nt.store.close();
  await ask(url, "CREATE TABLE queued AS SELECT * FROM nevertwice.records");
  const again = nevertwice({ store: url, sweep: false });
  await again.action("mail", { key: ["id"], run: async () => ({ id: "msg_1" }) })({ id: "settled" });
  await again.close();
  await ask(url, "CREATE TABLE settled AS SELECT fate, result FROM nevertwice.records WHERE state = 'confirmed'");
  await ask(url, "TRUNCATE nevertwice.records");
}

async function inBatches(pool, text, timed) {
  const due = Date.now() - INTENTS;
  let next = 0;
  await atOnce(async () => {
    while (next < INTENTS) {
      const from = next;
      next += ENQUEUE_ROWS;
      const numbers = Array.from({ length: ENQUEUE_ROWS }, (_, i) => from + i);
      const keys = numbers.map((n) => `\\x${n.toString(16).padStart(8, "0").split("").reverse().join("").repeat(8)}`);
      const values = [keys, numbers.map((n) => due + n)];
      await timed(() => pool.query({ name: "enqueue", text, values }));
    }
  });
}

async function drained(pool, lease, timed) {
  // A lease goes on where the last full one ended, as the store's does.
  let floor = 0;
  await atOnce(async () => {
    for (let more = true; more; ) {
      more = await timed(async () => {
        const from = floor;
        const { rows } = await pool.query({ name: "lease", text: lease, values: [Date.now(), from, ["mail"]] });
        floor = rows.length < LEASE_ROWS ? 0 : rows.reduce((most, { since }) => Math.max(most, Number(since)), floor);
        await settled(pool, rows);
        return rows.length > 0 || from > 0;
      });
    }
  });
}

async function settled(pool, rows) {
  for (let from = 0; from < rows.length; from += SETTLE_ROWS) {
    const keys = rows.slice(from, from + SETTLE_ROWS).map(({ key }) => key);
    await pool.query({ name: "settle", text: SETTLE, values: [keys, Date.now()] });
  }
}

function atOnce(work) {
  return Promise.all(Array.from({ length: AT_ONCE }, work));
}

function report(results) {
  const measures = [
    [`enqueue of ${ENQUEUE_ROWS}, ms`, ({ enqueue }) => enqueue.ms, 1],
    ["enqueue, bytes of WAL an intent", ({ enqueue }) => enqueue.wal, 0],
    [`lease and settle of ${LEASE_ROWS}, ms`, ({ drain }) => drain.ms, 1],
    ["drain, bytes of WAL an intent", ({ drain }) => drain.wal, 0],
    ["updates that touched no index", ({ sizes }) => sizes.hot, 2],
    ["tables after the drain, MB", ({ sizes }) => sizes.heap, 1],
    ["indexes after the drain, MB", ({ sizes }) => sizes.indexes, 1],
  ];
  const [own, beside] = Object.keys(SIDES);
  const rows = measures.map(([name, of, digits]) => {
    const [a, b] = [own, beside].map((side) => middle(results[side].map(of)));
    const shown = (value) =>
      value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
    return [name, shown(a), shown(b), (b / a).toFixed(2)];
  });
  const title = `${INTENTS.toLocaleString("en")} intents, medians of ${ROUNDS} rounds`;
  console.log(table([[title, own, beside, "ratio"], ...rows]));
}
