/**
 * A worker that may kill itself around the begin of what it leased. What to do comes as one JSON argument:
 *
 *   dieAfter   "lease": SIGKILL when the first lease has its answer; "begin": when the first effect has begun
 */
import { nevertwice } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const nt = nevertwice({ store: spec.store, sweep: "100ms", onWarning: () => {} });
const lease = nt.store.lease.bind(nt.store);
nt.store.lease = async (query) => {
  const rows = await lease(query);
  if (rows.length > 0 && spec.dieAfter === "lease") process.kill(process.pid, "SIGKILL");
  return rows;
};
nt.action("mail", {
  key: ["id"],
  lease: spec.leaseMs,
  timeout: spec.leaseMs / 2,
  // At most once: whatever was in doubt would stay undone.
  doubt: spec.doubt,
  run: ({ id }) => {
    say({ event: "ran", id });
    if (spec.dieAfter === "begin") process.kill(process.pid, "SIGKILL");
  },
});
const worker = nt.worker({ concurrency: 20, poll: "50ms" });
await worker.start();
