/** A process of the sequence tests: one release of a program with a sequence, that works until it is killed. */
import { request } from "node:http";
import { nevertwice, notSent } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

function post(body) {
  return new Promise((resolve, reject) => {
    const outgoing = request(spec.provider, { method: "POST" }, (response) => {
      response.resume();
      // The provider says that it did nothing: another try is safe.
      response.on("end", () => (response.statusCode === 200 ? resolve(null) : reject(notSent(new Error("503")))));
      response.on("error", reject);
    });
    outgoing.on("error", (error) => reject(error.code === "ECONNREFUSED" ? notSent(error) : error));
    outgoing.end(JSON.stringify(body));
  });
}

const nt = nevertwice({ store: spec.store, sweep: "200ms", onWarning: () => {} });
const drip = nt.sequence("drip", spec.list, {
  after: 100,
  onFailed: "continue",
  lease: spec.leaseMs,
  timeout: spec.leaseMs / 2,
  doubt: { resendWithin: "1h" },
  retry: { attempts: 4, backoff: 20, max: 50 },
  run: ({ subject, step }) => post({ subject, step }),
});
await nt.worker({ concurrency: 6, poll: "50ms" }).start();
say({ event: "started" });
for (const subject of spec.start ?? []) await drip.start(subject, undefined).catch(() => {});
say({ event: "enrolled" });
