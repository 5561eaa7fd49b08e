// A payment agent on the Claude Agent SDK: the real CLI, with a scripted model behind ANTHROPIC_BASE_URL. Charging is a tool
// that records the intent; the receipt is a tool that sends, behind the guard.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";
import { scriptedClaude } from "../../../../examples/agents/models/claude.mjs";

const QUIET = { DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };

/** The folder in which the CLI keeps its sessions. */
export const agentHome = () => mkdtempSync(join(tmpdir(), "nevertwice-payment-"));

const said = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

/**
 * One session, or one that is resumed. Each turn is a list of calls `[tool, input]`.
 * @param {{ home: string, guard: any, charge: (input: any) => Promise<unknown>, receipt: (input: any) => Promise<unknown>,
 *   turns: readonly (readonly (readonly [string, object])[])[], resume?: string }} world
 * @returns {Promise<{ id: string, told: string[] }>} the session's id, and what the model read
 */
export async function session({ home, guard, charge, receipt, turns, resume }) {
  const invoice = { customer_id: z.string(), amount_jpy: z.union([z.number(), z.string()]), invoice_id: z.string() };
  const mail = { to: z.string(), invoice_id: z.string(), body: z.string() };
  const pay = createSdkMcpServer({
    name: "pay",
    tools: [
      tool("charge_payment", "charges an invoice", { ...invoice, memo: z.string() }, async (input) =>
        said(await charge(input)),
      ),
      guard.tool(tool("send_receipt", "mails a receipt", mail, async (input) => said(await receipt(input)))),
    ],
  });
  const api = await scriptedClaude(turns.map((turn) => turn.map(([name, input]) => [`mcp__pay__${name}`, input])));
  const options = {
    ...(resume !== undefined && { resume }),
    mcpServers: { pay },
    hooks: guard.hooks(),
    allowedTools: ["mcp__pay__charge_payment", "mcp__pay__send_receipt"],
    settingSources: [],
    tools: [],
    cwd: home,
    env: {
      ...process.env,
      ...QUIET,
      HOME: home,
      CLAUDE_CONFIG_DIR: home,
      ANTHROPIC_API_KEY: "scripted",
      ANTHROPIC_BASE_URL: api.url,
    },
  };
  let id = "";
  const told = [];
  for await (const message of query({ prompt: "settle the invoice", options })) {
    id = message.session_id ?? id;
    if (message.type !== "user" || !Array.isArray(message.message.content)) continue;
    for (const block of message.message.content)
      if (block.type === "tool_result") told.push(JSON.stringify(block.content));
  }
  api.close();
  return { id, told };
}
