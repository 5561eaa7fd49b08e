/** The proxy on streamable HTTP in front of a server that heeds no cancellations; with the official ones it is tested in test/agents. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../../nevertwice.ts";
import { memoryStore } from "../../../stores/memory.ts";
import { McpGuard } from "../guard.ts";
import { httpProxy } from "./proxy.ts";

interface Message {
  readonly id?: number;
  readonly method: string;
}

/** Answers calls only when told to, on a stream as servers do, and everything else with 202. */
async function stubbornServer() {
  const came: Message[] = [];
  const held: { readonly id: number | undefined; readonly response: ServerResponse }[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const message = JSON.parse(text) as Message;
    came.push(message);
    if (message.method !== "tools/call") return response.writeHead(202).end();
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    return held.push({ id: message.id, response });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const answer = () => {
    for (const { id, response } of held.splice(0)) {
      const result = { content: [{ type: "text", text: "sent mail_1" }] };
      response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`);
    }
  };
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`), came, answer };
}

it("F26 F42: a cancelled call is in doubt soon, and an answer that comes all the same settles it", async () => {
  const server = await stubbornServer();
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  const config = { tools: { send: { key: ["to"], wait: 0 } } };
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const proxy = await httpProxy({ guard, config, url: server.url, host: "127.0.0.1", port: 0, graceMs: 20 });
  onTestFinished(async () => {
    await proxy.close();
    await nt.close();
  });
  const post = async (message: object) => {
    const headers = { "content-type": "application/json", "mcp-session-id": "s-1" };
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    return (await fetch(proxy.url, { method: "POST", headers, body })).text();
  };
  const call = (id: number) => post({ id, method: "tools/call", params: { name: "send", arguments: { to: "ada" } } });

  const first = call(1);
  await expect.poll(() => server.came.length).toBe(1);
  await post({ method: "notifications/cancelled", params: { requestId: 1, reason: "Request timed out" } });
  expect(server.came.at(-1)).toEqual({
    jsonrpc: "2.0",
    method: "notifications/cancelled",
    params: { requestId: 1, reason: "Request timed out" },
  });
  // Whoever cancelled gets no answer, only the end of the stream.
  expect(await first).toBe("");
  expect(await call(2)).toMatch(/It may have happened all the same .*: aborted/);
  server.answer();
  await expect.poll(() => call(3)).toMatch(/Already done at .*sent mail_1/);
  expect(server.came.filter(({ method }) => method === "tools/call")).toHaveLength(1);
});
