// A workflow that is killed after each of its steps, and goes on where it stopped. node examples/runs/story.mjs
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("onboard.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nevertwice-runs-"));

function call(dieAfter = "") {
  const child = spawn(process.execPath, [program, `sqlite:${folder}/ledger.db`, dieAfter], { stdio: "inherit" });
  return new Promise((done) => child.on("close", (code, signal) => done(signal ?? code)));
}

for (const step of ["source", "enrich", "send"]) {
  console.log(`Called, and killed after ${step}:`);
  await call(step);
}
console.log("Called once more:");
await call();
console.log("And again:");
await call();
rmSync(folder, { recursive: true, force: true });
