/** Runs one guard of guards/ in a process of its own, to be killed, stopped and traced by the scenarios. */
import { appendFileSync } from "node:fs";

const spec = JSON.parse(process.argv[2]);
const { openGuard } = await import(`./guards/${spec.guard}.mjs`);
const guard = openGuard(spec.ledger, { leaseMs: spec.leaseMs });

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function stop(point) {
  if (spec.stopAt !== point) return;
  say({ event: "paused", point });
  process.kill(process.pid, "SIGSTOP");
}

async function effect() {
  // A line in a file where the order of system calls is looked at, a request to the provider otherwise.
  if (spec.effectFile !== undefined) return appendFileSync(spec.effectFile, "effect\n");
  const response = await fetch(`${spec.provider}/effects`, {
    method: "POST",
    body: JSON.stringify({ id: spec.id, kind: "C" }),
  });
  if (!response.ok) throw Object.assign(new Error(`status ${response.status}`), { status: response.status });
  return response.json();
}

async function call() {
  try {
    const status = await guard.run(spec.id, { prepare: () => stop("prepare"), effect });
    say({ event: "status", status });
    return status;
  } catch (error) {
    say({ event: "threw", message: String(error.message) });
    return "threw";
  }
}

await guard.open();
stop("opened");
for (let calls = 0; calls < (spec.calls ?? 1); calls += 1) {
  if (calls > 0) await new Promise((done) => setTimeout(done, spec.everyMs));
  if ((await call()) === "done") break;
}
await guard.close();
say({ event: "end" });
