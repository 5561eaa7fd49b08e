import { AGENT } from "../agent-flag.ts";
import type { Command, Context } from "../command.ts";
import { SECRET_FLAGS } from "../ledger/secret-flags.ts";
import { SIGNATURE_FLAGS } from "../signature.ts";
import { UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

export const mcp: Command = {
  name: "mcp",
  summary: "guard any MCP server's tools: each call is made once",
  usage: [
    "[--config <file>] -- <server command>",
    "[--config <file>] --url <url> [--header <name: value>]",
    "[--config <file>] --url <url> --listen <port>",
    "init [--config <file>] [--preset <name>] -- <server command>",
    "probe [--call <tool=json>] -- <server command>",
    "serve [--allow-resolve] [--allow-resend --actions <module>]",
  ],
  about:
    "Stands in front of an MCP server, on stdio or on streamable HTTP, and passes everything on unchanged but repeated calls: those get the first answer. Tools that the server declares read-only or idempotent are not guarded, unless a config names them. Without a config, an identical call is a repeat only while the answer of the first one may not have arrived (it is under way, or the client, the proxy or the server went away), for 15 minutes at most. After that the same call is made again. A tool that the config names has a key, and is called once per key for as long as the config says. `init` writes a config with comments for a server, from the list of its tools. `probe` shows which tools of a server act again when a call is repeated. `serve` is an MCP server for operators: it lists and shows, and settles or sends again only where a flag allows it.",
  flags: {
    config: { value: "file", about: 'JSON: { "tools": { "create_issue": { "key": ["title"] } } }' },
    preset: {
      value: "name",
      about: "the config that ships for a known server: filesystem, memory, github, slack, playwright, postgres, fetch",
    },
    url: { value: "url", about: "the server's URL, instead of a command" },
    listen: {
      value: "port",
      about: "with --url: clients connect over HTTP too, to [host:]port; 0: a free one. Without it: on stdio",
    },
    "allow-host": {
      value: "name",
      about: "with --listen: a further host name clients may call it by (default: addresses and localhost)",
    },
    "allow-origin": {
      value: "origin",
      about: "with --listen: web pages of this origin may call it, such as https://app.example.com (default: none)",
    },
    "max-body": { value: "MiB", about: "with --listen: the longest request (default: 64)" },
    "max-held": {
      value: "MiB",
      about: "with --listen: requests, and answers, held in memory at a time (default: 256 each)",
    },
    "body-timeout": {
      value: "duration",
      about: "with --listen: a request's body has to be there by then (default: 60s)",
    },
    principal: {
      value: "header|claim:name",
      about:
        "with --url: what says who calls, such as X-User-Id or claim:sub (default: the token's issuer and subject)",
    },
    header: { value: "name: value", about: "with --url, on stdio: sent along, such as credentials" },
    name: {
      value: "name",
      about: "the server's name in the ledger, which then alone says which server it is",
    },
    "identity-env": {
      value: "names",
      about:
        "the variables that say which server it is, such as API_TOKEN,TENANT (default: all but those of the shell)",
    },
    agent: AGENT,
    scope: {
      value: "id",
      about: "a session or project: the same call in another one is another intent",
    },
    guard: {
      value: "what",
      about:
        "for tools without a config: undelivered (default): a call is a repeat until its answer has arrived; intent: identical calls are made once within the window",
    },
    only: { value: "tools", about: "guard these tools, with commas between them, and no other" },
    window: {
      value: "duration",
      about: "how long tools without a config are guarded at most, and their doubts held (default: 15m)",
    },
    "on-timeout": {
      value: "what",
      about:
        "finish: a client that stopped waiting does not stop the call, and the next one gets its answer (default: cancel)",
    },
    "status-tool": { about: "add the tool nevertwice_status to the server's own" },
    "once-more-tool": {
      about: "add the tool nevertwice_once_more: a model may ask for one more run of a call, and a person grants it",
    },
    observe: {
      about: "make every call, and record what would have been prevented (see: nevertwice prevented)",
    },
    ...SECRET_FLAGS,
    call: { value: "tool=json", about: "probe: call this tool with these arguments, three times" },
    "no-probe": { about: "init: call no tool, not even one that is declared read-only" },
    "allow-resolve": { about: "serve: resolve and retry too, not only look" },
    "allow-resend": { about: "serve: resend too; needs --actions" },
    actions: { value: "module", about: "serve: an ES module that exports the actions" },
    by: SIGNATURE_FLAGS.by,
  },
  operands: 1_000,
  examples: [
    ["mcp --config tools.json -- npx -y @modelcontextprotocol/server-memory", "in front of a command"],
    ["mcp --url https://mcp.example.com/mcp --listen 8931", "in front of a URL"],
    ["mcp init -- npx -y @modelcontextprotocol/server-github", "propose a config"],
    [`mcp probe --call 'create_entities={"entities":[]}' -- npx -y some-server`, "does it act twice?"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { operands, behindDashes } = context.args;
  const [what, ...extra] = operands.slice(0, operands.length - behindDashes.length);
  if (extra.length > 0) {
    throw new UsageError(
      `mcp: unexpected arguments: ${extra.map((word) => JSON.stringify(oneLine(word))).join(", ")}. Write the server's command after --: nevertwice mcp -- npx some-server`,
    );
  }
  // Loaded on demand: a proxy, a probe and a server are a third of the command's code.
  switch (what) {
    case undefined:
      return (await import("../mcp/proxy.ts")).runProxy(context);
    case "init":
      return (await import("../mcp/init.ts")).runInit(context);
    case "probe":
      return (await import("../mcp/probe-report.ts")).runProbe(context);
    case "serve":
      return (await import("../mcp/serve.ts")).runServe(context);
    default:
      throw new UsageError(
        `mcp: there is no "${oneLine(what)}". It takes init, probe, serve, or a server's command behind --: nevertwice mcp -- npx some-server`,
      );
  }
}
