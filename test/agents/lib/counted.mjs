// node counted.mjs <log> <server.js> [args]: a server from npm, with each message that reaches it written down.
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [log, ...server] = process.argv.slice(2);
const child = spawn(process.execPath, server, { stdio: ["pipe", "inherit", "inherit"] });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  appendFileSync(log, `${line}\n`);
  child.stdin.write(`${line}\n`);
});
lines.on("close", () => child.stdin.end());
child.on("exit", (code) => process.exit(code ?? 1));
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
