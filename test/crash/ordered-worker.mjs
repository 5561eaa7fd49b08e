/** A process of the order tests: enqueues its share of some orders, or runs what is queued, until it is killed. */
import { request } from "node:http";
import { nevertwice, notSent } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

function post(body, key) {
  return new Promise((resolve, reject) => {
    const outgoing = request(spec.provider, { method: "POST", headers: { "idempotency-key": key } }, (response) => {
      response.resume();
      response.on("end", () => (response.statusCode === 200 ? resolve(null) : reject(new Error("refused"))));
      response.on("error", reject);
    });
    outgoing.on("error", (error) => reject(error.code === "ECONNREFUSED" ? notSent(error) : error));
    outgoing.end(JSON.stringify(body));
  });
}

const nt = nevertwice({ store: spec.store, sweep: spec.enqueue ? false : "200ms", onWarning: () => {} });
const step = nt.action("step", {
  key: ["id"],
  keep: "forever",
  lease: spec.leaseMs,
  timeout: spec.leaseMs / 2,
  doubt: { resendWithin: "1h" },
  retry: { attempts: 100, backoff: 5, max: 100 },
  run: ({ id, order }, ctx) => post({ id, order }, ctx.key),
});

if (spec.enqueue) {
  for (const { id, order } of spec.enqueue) {
    for (;;) {
      try {
        await step.enqueue({ id, order }, { orderKey: order });
        break;
      } catch (error) {
        if (error.code !== "STORE_UNAVAILABLE") throw error;
      }
    }
    say({ event: "enqueued", id });
    if (spec.pauseMs) await new Promise((done) => setTimeout(done, spec.pauseMs * Math.random()));
  }
  await nt.close();
  say({ event: "finished" });
} else {
  await nt.worker({ concurrency: spec.concurrency, poll: "50ms" }).start();
  say({ event: "started" });
}
