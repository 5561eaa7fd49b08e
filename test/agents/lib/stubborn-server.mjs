// An MCP server that heeds neither the end of its input nor a signal that can be heeded. node stubborn-server.mjs <file for its pid>
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => {});
setInterval(() => {}, 1_000);
process.stdout.on("error", () => {});
writeFileSync(process.argv[2], String(process.pid));
const serverInfo = { name: "stubborn", version: "1.0.0" };
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  const result = method === "initialize" ? { protocolVersion: "2025-06-18", capabilities: {}, serverInfo } : {};
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
});
