// pg-boss with batches as large as our own worker's.
import PgBoss from "pg-boss";

export async function pgBoss(connectionString, { connections, concurrency }) {
  const boss = new PgBoss({ connectionString, max: connections, supervise: false, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue("bench");
  return {
    enqueue: (i) => boss.send("bench", { id: `job-${i}` }),
    enqueueMany: (ids) => boss.insert(ids.map((id) => ({ name: "bench", data: { id } }))),
    async drain(total) {
      let ran = 0;
      let done;
      const all = new Promise((resolve) => {
        done = resolve;
      });
      // Two loops of half the batch each, so that one half runs while the other is fetched.
      const loop = async () => {
        while (ran < total) {
          const jobs = await boss.fetch("bench", { batchSize: concurrency / 2 });
          if (jobs.length === 0) continue;
          await boss.complete(
            "bench",
            jobs.map(({ id }) => id),
          );
          ran += jobs.length;
          if (ran >= total) done();
        }
      };
      await Promise.all([loop(), loop(), all]);
    },
    close: () => boss.stop({ graceful: false }),
  };
}
