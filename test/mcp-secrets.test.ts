/** The MCP proxy in front of a command that holds secrets: none of them gets into the ledger. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { sqliteStore } from "nevertwice/sqlite";
import { expect, it } from "vitest";
import { temporaryFolder } from "./support/each-store.ts";

const SERVER = `
  const { createInterface } = require("node:readline");
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method } = JSON.parse(line);
    if (id === undefined) return;
    const results = {
      initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } },
      "tools/list": { tools: [{ name: "send", inputSchema: { type: "object" } }] },
      "tools/call": { content: [{ type: "text", text: "sent" }] },
    };
    console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] }));
  });
`;

it("values of variables and flags are in no name, scope or file of the ledger", async () => {
  const folder = temporaryFolder();
  const [server, ledger] = [join(folder, "mail-server.cjs"), join(folder, "ledger.db")];
  writeFileSync(server, SERVER);
  const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
  const command = ["env", "TOKEN=hunter2", "DATABASE_URL=postgres://ana:hunter2@db/app", process.execPath, server];
  const argv = [main, "mcp", "--store", `sqlite:${ledger}`, "--", ...command, "--api-key", "hunter2", "-p", "hunter2"];
  const proxy = spawn(process.execPath, argv, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((end) => proxy.on("close", end));
  const answers = createInterface({ input: proxy.stdout })[Symbol.asyncIterator]();
  const ask = async (message: object) => {
    proxy.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    return JSON.parse((await answers.next()).value as string);
  };
  const client = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  await ask({ id: 1, method: "initialize", params: client });
  await ask({ id: 2, method: "tools/list" });
  const answer = await ask({ id: 3, method: "tools/call", params: { name: "send", arguments: { to: "ana" } } });
  expect(answer.result.content[0].text).toBe("sent");
  proxy.stdin.end();
  await ended;
  const store = sqliteStore({ path: ledger });
  const { items } = await store.list({ limit: 10 });
  await store.close();
  expect(items.map(({ record }) => record.action)).toEqual(["nevertwice.key", "mail-server/send"]);
  expect(JSON.stringify(items)).not.toContain("hunter2");
  expect(readFileSync(ledger).toString("latin1")).not.toContain("hunter2");
});
