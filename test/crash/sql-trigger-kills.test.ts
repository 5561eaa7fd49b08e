/** D6: an outbox filled by a trigger in SQL, drained by the library's workers while they are killed. */
import { nevertwice } from "nevertwice";
import pg from "pg";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { CliLedger } from "../support/cli.ts";
import { cleanUp, startProgram } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const WORKER = new URL("./outbox-worker.mjs", import.meta.url).pathname;
const [ORDERS, BATCH, KILLS] = [1_200, 40, 5];
const cli = new CliLedger();

afterAll(async () => {
  await cleanUp();
  await cli.close();
});

it("D6 B1: rows that commit are sent once, rows that roll back never, however often workers die", async () => {
  const { url: store } = await freshDatabase();
  const provider = await startProvider();
  expect(await cli.run(["migrate", "--functions", "--store", store])).toMatchObject({ code: 0 });
  const client = new pg.Client({ connectionString: store });
  await client.connect();
  const nt = nevertwice({ store, sweep: false });
  onTestFinished(async () => {
    await nt.close();
    await client.end();
    await provider.close();
  });
  await client.query(`CREATE TABLE public.orders (id text PRIMARY KEY);
    CREATE FUNCTION public.order_placed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM nevertwice.enqueue('keyed', jsonb_build_array(NEW.id), jsonb_build_object('id', NEW.id));
      RETURN NULL;
    END $$;
    CREATE TRIGGER placed AFTER INSERT ON public.orders FOR EACH ROW EXECUTE FUNCTION public.order_placed()`);
  const start = () => startProgram(WORKER, { store, provider: provider.url, leaseMs: 2_000, concurrency: 16 });
  const fleet = Array.from({ length: 2 }, start);
  const [committed, rolledBack]: [string[], string[]] = [[], []];
  for (let from = 0; from < ORDERS; from += BATCH) {
    const ids = Array.from({ length: BATCH }, (_, i) => `A-${from + i}`);
    const commits = (from / BATCH) % 3 !== 2;
    await client.query("BEGIN");
    await client.query("INSERT INTO public.orders SELECT unnest($1::text[])", [ids]);
    await client.query(commits ? "COMMIT" : "ROLLBACK");
    (commits ? committed : rolledBack).push(...ids);
    if (from % (BATCH * 6) !== 0 || from / (BATCH * 6) >= KILLS) continue;
    // In the midst of it: something was sent of what has been committed so far.
    await expect
      .poll(() => provider.effectsOf(committed.at(-BATCH) as string), { timeout: 20_000, interval: 1 })
      .toBe(1);
    const victim = (from / (BATCH * 6)) % 2;
    await fleet[victim]?.kill();
    fleet[victim] = start();
  }
  const open = async () => {
    const { pending, claimed, sent, unknown } = (await nt.store.stats()).states;
    return pending + claimed + sent + unknown;
  };
  await expect.poll(open, { timeout: 60_000, interval: 100 }).toBe(0);
  expect(committed.filter((id) => provider.effectsOf(id) !== 1)).toEqual([]);
  expect(rolledBack.filter((id) => provider.effectsOf(id) !== 0)).toEqual([]);
  const { rows } = await client.query("SELECT state, count(*)::int FROM nevertwice.intents GROUP BY 1");
  expect(rows).toEqual([{ state: "confirmed", count: committed.length }]);
  for (const one of fleet) one.end();
}, 120_000);
