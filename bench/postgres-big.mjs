// Ten million records in PostgreSQL: do a call, a repeat and a look cost what they cost in an empty ledger?
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { openKeep } from "../scripts/services/keep.mjs";
import { startPostgres } from "../scripts/services/postgres.mjs";
import { ensurePrograms } from "../scripts/services/programs.mjs";
import { drive, median } from "./measure.mjs";

const CALLERS = 256;
// After the first, which is told by itself: the server logs a whole page when it is changed for the first time since a
// checkpoint, and in a large table the first ten thousand calls each meet other pages of the key's index.
const ROUNDS = 5;
const DAY_MS = 86_400_000;
const KEEP_MS = 30 * DAY_MS;
// A server sized for such a table. The fill itself is not measured: less log and larger sorts make it quick.
const SETTINGS = {
  shared_buffers: "2GB",
  max_wal_size: "16GB",
  maintenance_work_mem: "512MB",
  wal_level: "minimal",
  max_wal_senders: 0,
};

export async function bigBench({ records, calls }) {
  ensurePrograms(["initdb", "postgres"]);
  const keep = await openKeep();
  try {
    const { url } = await startPostgres(keep, { settings: SETTINGS });
    const empty = await ratesIn(url, { calls, repeats: (i) => `first-${i}` });
    const started = performance.now();
    const size = await fill(url, records);
    const seconds = (performance.now() - started) / 1_000;
    // Repeats of intents from all over the table, not of those just written; the oldest of it is past its keep.
    const old = (i) => Math.floor((records / 10_000) * (0.01 + (0.98 * i) / calls)) * 10_000 + 1 + (i % 9_999);
    const full = await ratesIn(url, { calls, repeats: (i) => `old-${old(i)}` });
    return { empty, full, looks: await looks(url), size, seconds };
  } finally {
    await keep.close();
  }
}

async function ratesIn(url, { calls, repeats }) {
  const rates = { claim: [], replay: [] };
  for (let round = 0; round <= ROUNDS; round += 1) {
    const mark = `${round}-${Math.random()}`;
    rates.claim.push(
      await withAction(url, (call) =>
        driveAll(calls, (i) => call({ id: round === 0 ? `first-${i}` : `${mark}-${i}` }), call),
      ),
    );
    rates.replay.push(await withAction(url, (call) => driveAll(calls, (i) => replay(call, repeats(i)), call)));
  }
  const later = (results) => median(results.slice(1)).rate;
  return { claim: later(rates.claim), firstClaim: rates.claim[0].rate, replay: later(rates.replay) };
}

async function replay(call, id) {
  const outcome = await call.attempt({ id });
  if (outcome.status !== "done" || !outcome.replayed) throw new Error(`no repeat, but ${outcome.status}`);
}

/** A program of its own each time: nothing is answered from memory. */
async function withAction(url, work) {
  const nt = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false });
  const call = nt.action("bench", { key: ["id"], keep: KEEP_MS, run: async () => ({ id: "msg_1" }) });
  try {
    return await work(call);
  } finally {
    await nt.close();
  }
}

async function driveAll(total, call, warm) {
  await drive({ total: 2_000, callers: CALLERS, call: (i) => warm({ id: `warm-${Math.random()}-${i}` }) });
  return drive({ total, callers: CALLERS, call });
}

/** What people ask for, in milliseconds. */
async function looks(url) {
  const store = postgresStore({ url, listen: false });
  const timed = async (work) => {
    const started = performance.now();
    await work();
    return performance.now() - started;
  };
  try {
    await store.read(["nt1_none"]);
    return {
      "ls, newest first": await timed(() => store.list({ limit: 50 })),
      "ls --state unknown": await timed(() => store.list({ limit: 50, states: ["unknown"] })),
      "ls --action": await timed(() => store.list({ limit: 50, action: "bench" })),
      "ls by beginning of a key": await timed(() => store.list({ limit: 50, keyPrefix: "nt1_0123" })),
      stats: await timed(() => store.stats()),
      "sweep of 1 000 records": await timed(() => store.sweep({ limit: 1_000 })),
    };
  } finally {
    await store.close();
  }
}

/** Records as calls would have left them over the last thirty days and a little, by SQL: keys and digests included. */
async function fill(connectionString, records) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  const digest = (text) => `sha256(convert_to(${text}, 'UTF8'))`;
  const short = (text) => `translate(encode(substring(${digest(text)} for 12), 'base64'), '+/', '-_')`;
  try {
    await client.query("BEGIN");
    // Made and filled in one transaction: what is in it needs no log. Its indexes are built at the end.
    await client.query(
      "CREATE TABLE nevertwice.filled (LIKE nevertwice.records INCLUDING ALL EXCLUDING INDEXES) WITH (fillfactor = 45)",
    );
    await client.query(
      `INSERT INTO nevertwice.filled (created_at, keep_ms, first_sent_at, last_sent_at, attempt, fence, tries, queued, key,
         tenant, action, doc, input, holder, rev, updated_at, attention, attention_at, expires_at, state, sent_mark, fate, result)
       SELECT at, ${KEEP_MS}, at, at, 1, 1, 1, false, ${digest(`'["nt1","","bench",1,null,"old-' || i || '"]'`)},
         '', 'bench', ${short(`'"old-' || i || '"'`)} || ':id',
         '{"id":"old-' || i || '"}', 'holder-' || i, at * 4096, at,
         CASE WHEN doubt THEN 'unknown' END, CASE WHEN doubt THEN at END, CASE WHEN NOT doubt THEN at + ${KEEP_MS} END,
         CASE WHEN doubt THEN 'unknown' ELSE 'confirmed' END, '=',
         CASE WHEN doubt THEN '{"doubtSince":' || at || ',"why":"no answer"}' END,
         CASE WHEN NOT doubt THEN '{"id":"msg_1"}' END
       FROM generate_series(1, $1::bigint) i
       CROSS JOIN LATERAL (SELECT (extract(epoch FROM now()) * 1000)::bigint - ((($1 - i) * 30.01 * ${DAY_MS}) / $1)::bigint - 300000 AS at,
         i % 10000 = 0 AS doubt) t`,
      [records],
    );
    await client.query("ALTER TABLE nevertwice.filled ADD PRIMARY KEY (key, tenant)");
    await client.query("DROP TABLE nevertwice.records");
    for (const text of [
      "ALTER TABLE nevertwice.filled RENAME TO records",
      "CREATE INDEX records_created ON nevertwice.records (action, keep_ms, created_at) WITH (deduplicate_items = off)",
      "CREATE INDEX records_attention ON nevertwice.records (attention, attention_at, action, tenant) WHERE attention IS NOT NULL",
      "CREATE INDEX records_scope ON nevertwice.records (scope, created_at) WHERE scope IS NOT NULL",
      "ALTER TABLE nevertwice.records SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)",
      // Where a ledger that was swept all along would have it.
      "INSERT INTO nevertwice.watch (name, watched_to) VALUES ('all', (extract(epoch FROM now()) * 1000)::bigint - 300000)",
      "COMMIT",
      "VACUUM ANALYZE nevertwice.records",
      "CHECKPOINT",
    ])
      await client.query(text).catch((error) => {
        // Only a superuser may ask for a checkpoint; it comes by itself.
        if (text !== "CHECKPOINT") throw error;
      });
    const { rows } = await client.query(
      "SELECT pg_table_size('nevertwice.records') AS heap, pg_indexes_size('nevertwice.records') AS indexes",
    );
    return { heap: Number(rows[0].heap), indexes: Number(rows[0].indexes) };
  } finally {
    await client.end();
  }
}
