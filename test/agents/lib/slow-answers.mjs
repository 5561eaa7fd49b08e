// node slow-answers.mjs <folder> <server.js> [args]: a server from npm whose answers to tool calls are held back for as long as
// the file door.held is in the folder. The calls themselves reach it at once, and are written down in door.log.
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [folder, ...server] = process.argv.slice(2);
const child = spawn(process.execPath, server, { stdio: ["pipe", "pipe", "inherit"] });
writeFileSync(join(folder, "door.pid"), String(child.pid));
const calls = new Set();
const held = [];

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  appendFileSync(join(folder, "door.log"), `${line}\n`);
  if (method === "tools/call") calls.add(id);
  child.stdin.write(`${line}\n`);
});
lines.on("close", () => child.stdin.end());

createInterface({ input: child.stdout }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (method === undefined && calls.has(id) && existsSync(join(folder, "door.held"))) {
    held.push(line);
    appendFileSync(join(folder, "door.answered"), `${line}\n`);
  } else process.stdout.write(`${line}\n`);
});
const letGo = () => {
  if (existsSync(join(folder, "door.held"))) return;
  for (const line of held.splice(0)) process.stdout.write(`${line}\n`);
};
const look = setInterval(letGo, 20);
child.on("close", (code) => {
  clearInterval(look);
  letGo();
  process.exit(code ?? 1);
});
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
