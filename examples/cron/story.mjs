// A scheduler that fires far too often, a runner that is killed, a post that is published once. node examples/cron/story.mjs
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nevertwice-cron-"));
const posts = new Map();
let slowly = false;
let letGo = () => {};

// The blog: it knows idempotency keys, so the same key is the same post. Sometimes it takes its time to answer.
const blog = createServer((request, response) => {
  const key = request.headers["idempotency-key"];
  if (!posts.has(key)) posts.set(key, `post ${posts.size + 1}`);
  if (slowly) letGo = () => response.end(posts.get(key));
  else response.end(posts.get(key));
});
await new Promise((listening) => blog.listen(0, "127.0.0.1", listening));
const provider = `http://127.0.0.1:${blog.address().port}`;

function fire(slot) {
  const line = ["run", "--job", "digest", "--slot", slot, "--lease", "4s", "--verbose"];
  const work = [process.execPath, here("publish.mjs"), provider];
  const child = spawn(process.execPath, [here("../../dist/cli/main.js"), ...line, "--", ...work], {
    env: { ...process.env, NEVERTWICE_STORE: `sqlite:${folder}/ledger.db` },
  });
  let said = "";
  const hear = (chunk) => {
    said += chunk;
  };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", hear);
  const ended = new Promise((done) => child.on("close", (code, signal) => done({ code: signal ?? code, said })));
  return { child, ended };
}

/** Fires again and again, as a scheduler does, until a call says what is waited for. */
async function fireUntil(slot, wanted) {
  for (;;) {
    const said = words(await fire(slot).ended);
    if (wanted.test(said)) return said;
  }
}

const words = ({ said }) => said.split("\n").find((line) => /skipped|attempt/.test(line)) ?? "nothing";

console.log("Monday: the scheduler fires three times at once.");
const monday = await Promise.all([1, 2, 3].map(() => fire("monday").ended));
console.log(
  `  ${monday.filter(({ said }) => /attempt 1/.test(said)).length} ran, ${monday.filter(({ said }) => /skipped/.test(said)).length} were skipped; posts: ${posts.size}`,
);

console.log("Tuesday: the runner is killed in the middle, and the job goes on without it.");
slowly = true;
const killed = fire("tuesday");
while (posts.size < 2) await new Promise((done) => setTimeout(done, 10));
killed.child.kill("SIGKILL");
await fireUntil("tuesday", /still runs/);
console.log("  noticed: the command still runs; skipped");
slowly = false;
letGo();
await fireUntil("tuesday", /recorded as done/);
console.log(`  it has ended with 0: recorded as done, and not run again; posts: ${posts.size}`);

console.log("Wednesday morning, once more for Tuesday:");
console.log(
  `  ${/already done/.test(words(await fire("tuesday").ended)) ? "already done; skipped" : "ran again"}; posts: ${posts.size}`,
);
blog.close();
rmSync(folder, { recursive: true, force: true });
