// An agent on the Claude Agent SDK: the real CLI, with a scripted model behind ANTHROPIC_BASE_URL.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";
import { claudeGuard } from "../../../../dist/agents/frameworks/claude-agent-sdk.js";
import { deliver, fresh, mailOptions } from "./mail-tool.mjs";

const TOOL = "mcp__mail__send_mail";

/** The Messages API as far as the CLI needs it: streams one step of the script per request of the main loop. */
async function scriptedApi(steps) {
  const left = [...steps];
  const told = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const body = text === "" ? {} : JSON.parse(text);
    const main = request.url.startsWith("/v1/messages") && body.tools?.some(({ name }) => name === TOOL);
    if (!main) return response.writeHead(200, { "content-type": "application/json" }).end('{"input_tokens":1}');
    for (const block of (body.messages ?? []).flatMap(({ content }) => (Array.isArray(content) ? content : []))) {
      if (block.type === "tool_result" && !told.some(({ id }) => id === block.tool_use_id))
        told.push({ id: block.tool_use_id, text: JSON.stringify(block.content) });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of eventsOf(left.shift(), body.model))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, told, close: () => server.close() };
}

function eventsOf(step, model) {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = {
    id: fresh(),
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
  const block = (index, content_block, delta) => [
    { type: "content_block_start", index, content_block },
    { type: "content_block_delta", index, delta },
    { type: "content_block_stop", index },
  ];
  const blocks =
    step === undefined
      ? block(0, { type: "text", text: "" }, { type: "text_delta", text: "finished" })
      : step.flatMap(({ id, ...mail }, index) =>
          block(
            index,
            { type: "tool_use", id: `toolu_${id ?? fresh()}`, name: TOOL, input: {} },
            { type: "input_json_delta", partial_json: JSON.stringify(mail) },
          ),
        );
  const stop_reason = step === undefined ? "end_turn" : "tool_use";
  return [
    { type: "message_start", message },
    ...blocks,
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
}

/** A session's id has the form of a UUID; the same thread is the same session, resumed when it is there already. */
async function sessionOf(world) {
  const home = process.env.AGENT_HOME ?? join(tmpdir(), `nevertwice-claude-${new URL(world.url).port}`);
  const hex = createHash("sha256").update(world.thread).digest("hex");
  const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  const marker = join(home, id);
  mkdirSync(home, { recursive: true });
  const known = existsSync(marker);
  writeFileSync(marker, "");
  return { home, ...(known && (await isWrittenDown(home, id)) ? { resume: id } : { sessionId: id }) };
}

/**
 * The command may outlive its program for a moment, and writes the conversation down meanwhile: resumed before, it is not
 * found. Killed before it could, it has left none, and the session begins anew.
 */
async function isWrittenDown(home, id) {
  const folder = join(home, "projects");
  const found = () =>
    existsSync(folder) && readdirSync(folder, { recursive: true }).some((file) => file.endsWith(`${id}.jsonl`));
  for (let look = 0; look < 300 && !found(); look += 1) await new Promise((done) => setTimeout(done, 10));
  return found();
}

function following(signal) {
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort(signal.reason));
  return controller;
}

export async function run(world, steps) {
  const api = await scriptedApi(steps);
  const guard = world.nt === null ? null : claudeGuard(world.nt, { tools: { send_mail: mailOptions(world) } });
  const shape = { to: z.string(), body: z.string(), amount: z.number().optional() };
  const send = tool("send_mail", "sends a mail", shape, async (mail) => ({
    content: [{ type: "text", text: JSON.stringify(await deliver(world, mail)) }],
  }));
  const server = { name: "mail", tools: [send] };
  const { home, ...session } = await sessionOf(world);
  const env = {
    ...process.env,
    HOME: home,
    CLAUDE_CONFIG_DIR: home,
    ANTHROPIC_BASE_URL: api.url,
    ANTHROPIC_API_KEY: "scripted",
  };
  const options = {
    ...session,
    mcpServers: { mail: createSdkMcpServer(guard === null ? server : guard.server(server)) },
    allowedTools: [TOOL],
    settingSources: [],
    tools: [],
    cwd: home,
    env: { ...env, DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    ...(guard !== null && { hooks: guard.hooks() }),
    ...(world.signal && { abortController: following(world.signal) }),
  };
  const before = api.told.length;
  for await (const message of query({ prompt: "mail them", options })) if (message.type === "result") break;
  api.close();
  return api.told.slice(before).map(({ text }) => text);
}

export const runBy = () => run;
