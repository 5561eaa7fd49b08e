// A million pending intents in PostgreSQL, drained by one worker: its resident set, and the rate from start to end.
import { performance } from "node:perf_hooks";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { startAll } from "../scripts/services/start-all.mjs";

const STEPS = 10;
const MOST_RESIDENT_MB = 200;
const LEAST_RATE_AT_THE_END = 0.7;

export async function millionBench({ intents }) {
  const { addresses, close } = await startAll(["postgres"]);
  const url = addresses.NEVERTWICE_TEST_POSTGRES;
  try {
    const nt = nevertwice({ store: url });
    const bench = nt.action("bench", { key: ["id"], run: async () => ({ id: "msg_1" }) });
    await bench.enqueue({ id: "the first" });
    await multiply(url, intents);
    const worker = nt.worker({ concurrency: 256 });
    const step = intents / STEPS;
    const marks = [{ done: 0, at: performance.now(), mb: resident() }];
    let most = 0;
    const sampling = setInterval(() => {
      most = Math.max(most, resident());
    }, 100);
    worker.on(() => {
      const { done } = worker.status;
      if (done >= marks.at(-1).done + step) marks.push({ done, at: performance.now(), mb: resident() });
    });
    await worker.drain();
    clearInterval(sampling);
    const { done } = worker.status;
    const { states } = await nt.store.stats();
    await nt.close();
    const rates = marks.slice(1).map((mark, i) => ((mark.done - marks[i].done) / (mark.at - marks[i].at)) * 1_000);
    const rows = rates.map((rate, i) => [
      marks[i + 1].done.toLocaleString("en"),
      marks[i + 1].mb.toFixed(0),
      Math.round(rate).toLocaleString("en"),
    ]);
    const kept = rates.at(-1) / rates[0];
    return {
      rows,
      most,
      kept,
      done,
      left: states.pending,
      ok: most < MOST_RESIDENT_MB && kept >= LEAST_RATE_AT_THE_END,
    };
  } finally {
    await close();
  }
}

function resident() {
  return process.memoryUsage().rss / 2 ** 20;
}

/** The one that was enqueued, as often as wanted under keys of their own: what is measured is the drain. */
async function multiply(url, intents) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'nevertwice' AND table_name = 'records' ORDER BY ordinal_position",
  );
  const columns = rows.map(({ name }) => name);
  const values = columns.map((name) => (name === "key" ? "sha256(n::text::bytea)" : `r.${name}`));
  await client.query(
    `INSERT INTO nevertwice.records (${columns.join(", ")}) SELECT ${values.join(", ")} FROM nevertwice.records r, generate_series(2, $1::int) n`,
    [intents],
  );
  // As the server does by itself within a minute or two; until then it sorts what came at once for each lease.
  await client.query("ANALYZE nevertwice.records");
  await client.end();
}
