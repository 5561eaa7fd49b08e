// node one-call.mjs <json of { argv } or { url }> <json of the call>: one call by the official client in a process of its own, so
// that the client itself can be killed. Prints what it got.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [{ argv, url }, call] = process.argv.slice(2).map((text) => JSON.parse(text));
const transport =
  url === undefined
    ? // The whole environment, as connect() in mcp.ts gives it: a server that is started with another one is another server.
      new StdioClientTransport({ command: process.execPath, args: argv, env: process.env, stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(url));
const client = new Client({ name: "one-call", version: "1.0.0" });
await client.connect(transport);
console.log("connected");
console.log(JSON.stringify(await client.callTool(call)));
setInterval(() => {}, 1_000);
