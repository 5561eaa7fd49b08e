// pg-boss by its own work(), at the shortest polling interval it takes, and by hand: fetch and complete in a loop.
import PgBoss from "pg-boss";

export async function pgBoss(connectionString, { connections, batch }) {
  const boss = new PgBoss({ connectionString, max: connections, supervise: false, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue("bench");
  return {
    enqueue: (i) => boss.send("bench", { id: `job-${i}` }),
    enqueueMany: (ids) => boss.insert(ids.map((id) => ({ name: "bench", data: { id } }))),
    /** Two workers of a batch each, until `total` jobs have run. */
    async drain(total) {
      let ran = 0;
      let done;
      const all = new Promise((resolve) => {
        done = resolve;
      });
      const options = { batchSize: batch, pollingIntervalSeconds: 0.5 };
      const work = async (jobs) => {
        ran += jobs.length;
        if (ran >= total) done();
      };
      for (let i = 0; i < 2; i += 1) await boss.work("bench", options, work);
      await all;
      await boss.offWork("bench");
    },
    async drainByHand(total) {
      let ran = 0;
      // Two loops, so that one batch is completed while the other is fetched.
      const loop = async () => {
        while (ran < total) {
          const jobs = await boss.fetch("bench", { batchSize: batch });
          if (jobs.length === 0) continue;
          const ids = jobs.map(({ id }) => id);
          await boss.complete("bench", ids);
          ran += jobs.length;
        }
      };
      await Promise.all([loop(), loop()]);
    },
    close: () => boss.stop({ graceful: false }),
  };
}
