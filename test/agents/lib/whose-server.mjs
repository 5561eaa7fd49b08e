// A guarded MCP server on stdio, as one process per user is started with an environment of its own.
// node whose-server.mjs <1 | 2> <high | low | tool> <provider> <ledger>    ACCOUNT says whose calls they are
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { McpServer as McpServer2, Server as Server2 } from "@modelcontextprotocol/server";
import { StdioServerTransport as Stdio2 } from "@modelcontextprotocol/server/stdio";
import { nevertwice } from "../../../dist/index.js";
import { guardedServer } from "./whose-servers.mjs";

const [version, kind, provider, ledger] = process.argv.slice(2);
const sdk =
  version === "1"
    ? { major: 1, McpServer, Server, methods: { call: CallToolRequestSchema, list: ListToolsRequestSchema } }
    : { major: 2, McpServer: McpServer2, Server: Server2, methods: { call: "tools/call", list: "tools/list" } };
const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
const server = guardedServer(nt, { sdk, kind, provider, scope: process.env.ACCOUNT });
await server.connect(new (version === "1" ? StdioServerTransport : Stdio2)());
// The official client gives a server that stays two seconds.
process.stdin.once("end", async () => {
  await nt.close();
  process.exit();
});
