/**
 * One of several hosts with the same job and one ledger. Its wall clock may lie, and run fast (faketime); it asks its
 * scheduler every few milliseconds of real time, and says how each slot ended.
 */
import { nevertwice } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const nt = nevertwice({ store: `sqlite:${spec.ledger}`, sweep: false });
const job = nt.job("digest", {
  ...spec.schedule,
  catchUp: { all: 50 },
  lease: "60s",
  run: async ({ slot, signal }) => {
    const response = await fetch(`${spec.provider}/effects`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: `C-${spec.name}-${slot}`, kind: "C", text: "digest" }),
      signal,
    });
    if (!response.ok) throw new Error(`the provider answered ${response.status}`);
    await new Promise((done) => setTimeout(done, spec.takesMs));
    return await response.json();
  },
});
say({ event: "started", wall: Date.now() });
const began = performance.now();
while (performance.now() - began < spec.forMs) {
  for (const { slot, outcome } of await job.tick())
    say({ event: "slot", slot, status: outcome.status, replayed: outcome.replayed });
  await new Promise((done) => setTimeout(done, 20));
}
await nt.close();
// The steady clock is not faked and is the same on every host, so it tells how far apart the wall clocks are.
say({ event: "end", wall: Date.now(), steady: Number(process.hrtime.bigint() / 1_000_000n) });
