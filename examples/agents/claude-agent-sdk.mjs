// npm install nevertwice @anthropic-ai/claude-agent-sdk zod
// A session that is resumed: the model does not remember the mail, the ledger does.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { nevertwice } from "nevertwice";
import { claudeGuard } from "nevertwice/agents/claude-agent-sdk";
import { z } from "zod";
import { scriptedClaude } from "./models/claude.mjs";

const nt = nevertwice({ store: "memory:" }); // nevertwice() keeps it on disk
const mails = [];

// errors: an error of this tool means that nothing was done. Leave it out where one may come after the effect.
const guard = claudeGuard(nt, { tools: { send_mail: { key: ["to"], free: ["body"], errors: "not-done" } } });
const send = tool("send_mail", "Sends a mail", { to: z.string(), body: z.string() }, async (mail) => ({
  content: [{ type: "text", text: `mail_${mails.push(mail)}` }],
}));

const home = mkdtempSync(join(tmpdir(), "nevertwice-example-"));
async function session(body, options) {
  // In earnest: no ANTHROPIC_BASE_URL.
  const api = await scriptedClaude([[["mcp__mail__send_mail", { to: "ada@example.com", body }]]]);
  const quiet = { DISABLE_TELEMETRY: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
  const env = {
    ...process.env,
    ...quiet,
    CLAUDE_CONFIG_DIR: home,
    ANTHROPIC_API_KEY: "scripted",
    ANTHROPIC_BASE_URL: api.url,
  };
  const mcpServers = { mail: createSdkMcpServer(guard.server({ name: "mail", tools: [send] })) };
  const common = {
    mcpServers,
    hooks: guard.hooks(),
    allowedTools: ["mcp__mail__send_mail"],
    settingSources: [],
    tools: [],
    cwd: home,
    env,
  };
  let id;
  for await (const message of query({ prompt: "Write to Ada.", options: { ...common, ...options } }))
    id = message.session_id ?? id;
  api.close();
  return id;
}

const id = await session("Hello", {});
await session("Good day", { resume: id });
console.log(mails.length); // → 1
await nt.close();
process.exit(0);
