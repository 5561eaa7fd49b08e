// npm install nevertwice @modelcontextprotocol/sdk @modelcontextprotocol/server-filesystem
// A server that somebody else wrote, with the proxy in front. By default an identical call is a repeat only while the answer to the
// first one may not have arrived. --guard intent goes by the arguments alone: three edits alike change the file once.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const folder = mkdtempSync(join(tmpdir(), "nevertwice-example-"));
const file = join(folder, "list.txt");
const server = [
  process.execPath,
  fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-filesystem/dist/index.js")),
  folder,
];
// On a command line: npx nevertwice mcp --guard intent -- npx @modelcontextprotocol/server-filesystem <folder>
const nevertwice = [
  fileURLToPath(new URL("./cli/main.js", import.meta.resolve("nevertwice"))),
  "mcp",
  "--guard",
  "intent",
  "--store",
  `sqlite:${folder}/ledger.db`,
  "--",
];

for (const [name, command] of [
  ["bare", server],
  ["guarded", [process.execPath, ...nevertwice, ...server]],
]) {
  writeFileSync(file, "bread\n");
  const client = new Client({ name: "agent", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: "ignore" }));
  const edit = { path: file, edits: [{ oldText: "bread", newText: "bread, milk" }] };
  for (let time = 0; time < 3; time += 1) await client.callTool({ name: "edit_file", arguments: edit });
  await client.close();
  console.log(`${name}: ${readFileSync(file, "utf8").trim()}`);
  // → bare: bread, milk, milk, milk
  // → guarded: bread, milk
}
