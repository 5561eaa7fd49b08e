/**
 * A worker of the abandoned-work test, with four kinds of lease: two actions that are leased as claimed for different times,
 * one that is leased as sent, and a queue that takes one task at a time. What to do comes as one JSON argument:
 *
 *   holds   take work and hold it before anything is sent, say so, and wait to be killed
 */
import { nevertwice } from "nevertwice";

const { store, leaseMs, holds } = JSON.parse(process.argv[2]);
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
// Redis guards no "hold" unless it syncs every write; what this test is about is the same for every policy.
const options = { key: ["id"], keep: "forever", doubt: "retry" };

async function hold(name) {
  say("holding", { name });
  await new Promise(() => {});
}
nt.action("prepared", {
  ...options,
  lease: leaseMs,
  prepare: holds ? () => hold("prepared") : async () => "draft",
  run: async ({ id }) => say("ran", { id }),
});
nt.action("manual", {
  ...options,
  lease: leaseMs + 500,
  mark: "manual",
  run: async ({ id }, ctx) => {
    if (holds) await hold("manual");
    await ctx.sent();
    say("ran", { id });
  },
});
nt.action("plain", { ...options, lease: leaseMs, run: async ({ id }) => say("ran", { id }) });
const tasks = nt.queue("tasks", { key: ["id"], lease: leaseMs + 1_000 });

const worker = nt.worker({ concurrency: 8, poll: "50ms", ...(holds && { actions: ["prepared", "manual"] }) });
await worker.start();
for (;;) {
  const task = await tasks.take({ wait: "1s" });
  if (task === null) continue;
  if (holds) await hold("tasks");
  say("ran", { id: task.input.id });
  await task.done(null);
}
