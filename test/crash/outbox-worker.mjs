/** A worker process of the outbox tests: runs what is queued against the provider until it is killed or told to stop. */
import { Agent, request } from "node:http";
import { nevertwice, notSent } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const agent = new Agent({ keepAlive: true, maxSockets: spec.concurrency });

export function post(url, body, key) {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: "POST", agent, headers: { "idempotency-key": key } }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => {
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(Object.assign(new Error(`answered ${response.statusCode}`), { status: response.statusCode }));
      });
      response.on("error", reject);
    });
    outgoing.on("error", (error) => reject(error.code === "ECONNREFUSED" ? notSent(error) : error));
    outgoing.end(JSON.stringify(body));
  });
}

const nt = nevertwice({ store: spec.store, sweep: spec.sweep ?? "300ms", onWarning: () => {} });
const options = { key: ["id"], lease: spec.leaseMs, keep: "forever", retry: { attempts: 100, backoff: 5, max: 100 } };
const run = ({ id }, ctx) => post(spec.provider, { id, kind: id[0] }, ctx.key);
nt.action("keyed", { ...options, doubt: { resendWithin: "1h" }, run });
nt.action("plain", { ...options, doubt: "hold", run });

const worker = nt.worker({ concurrency: spec.concurrency, poll: "50ms" });
nt.on((event) => {
  if (event.type === "duplicate_detected") process.stdout.write(`${JSON.stringify({ event: "duplicate" })}\n`);
});
let begun = false;
worker.on((event) => {
  if (event.type !== "finished" || begun) return;
  begun = true;
  process.stdout.write(`${JSON.stringify({ event: "begun" })}\n`);
});
process.once("SIGTERM", async () => {
  await nt.close();
  process.stdout.write(`${JSON.stringify({ event: "stopped", status: worker.status })}\n`);
  process.exit(0);
});
await worker.start();
