// graphile-worker as its own performance guide sets it up: a local queue, completions in batches.
import { makeWorkerUtils, runTaskList } from "graphile-worker";
import pg from "pg";

const silent = { logger: new (await import("graphile-worker")).Logger(() => () => {}) };

export async function graphile(connectionString, { connections, concurrency }) {
  const pgPool = new pg.Pool({ connectionString, max: connections });
  pgPool.on("error", () => {});
  pgPool.on("connect", (client) => client.on("error", () => {}));
  const utils = await makeWorkerUtils({ pgPool, ...silent });
  await utils.migrate();
  return {
    enqueue: (i) => utils.addJob("bench", { id: `job-${i}` }),
    enqueueMany: (ids) => utils.addJobs(ids.map((id) => ({ identifier: "bench", payload: { id } }))),
    /** Until `total` jobs have run. */
    async drain(total, task = async () => {}) {
      let ran = 0;
      let done;
      const all = new Promise((resolve) => {
        done = resolve;
      });
      const bench = async (payload) => {
        await task(payload);
        ran += 1;
        if (ran === total) done();
      };
      const worker = {
        concurrentJobs: concurrency,
        pollInterval: 2_000,
        localQueue: { size: 2 * concurrency, refetchDelay: undefined },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      };
      const pool = runTaskList({ pgPool, preset: { worker }, ...silent }, { bench }, pgPool);
      await all;
      await pool.gracefulShutdown("done");
    },
    async close() {
      await utils.release();
      await pgPool.end();
    },
  };
}
