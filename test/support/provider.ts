/** A provider over real HTTP that has its effect and then answers, or fails to, as the test says. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** What the provider does with the next request that is not a repeat it remembers. */
export type Mode = "ok" | "drop-after-effect" | "500-after-effect" | "500-cached" | "409" | "422";

export interface Provider {
  readonly url: string;
  /** One entry per effect that happened. */
  readonly effects: string[];
  /** Every request that arrived: its key and its bytes. */
  readonly requests: { readonly key: string; readonly body: string }[];
  /** The modes of the next requests, in order; "ok" when there is none left. */
  plan(...modes: Mode[]): void;
  send(body: unknown, key: string): Promise<{ id: string }>;
}

export async function startProvider({ honoursKeys = true } = {}): Promise<Provider> {
  const effects: string[] = [];
  const requests: { key: string; body: string }[] = [];
  const answers = new Map<string, { status: number; body: string }>();
  const modes: Mode[] = [];

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const key = String(request.headers["idempotency-key"] ?? "");
    const body = await textOf(request);
    requests.push({ key, body });
    const mode = modes.shift() ?? "ok";
    if (mode === "409" || mode === "422") return void response.writeHead(Number(mode)).end();
    const remembered = honoursKeys ? answers.get(key) : undefined;
    if (remembered) return void response.writeHead(remembered.status).end(remembered.body);
    effects.push(body);
    const answer = { status: mode === "500-cached" ? 500 : 200, body: JSON.stringify({ id: `msg_${effects.length}` }) };
    answers.set(key, answer);
    if (mode === "drop-after-effect") return void request.socket.destroy();
    response.writeHead(mode === "500-after-effect" ? 500 : answer.status).end(answer.body);
  };

  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    effects,
    requests,
    plan: (...next) => void modes.push(...next),
    send: (body, key) => post(url, body, key),
  };
}

/** A port where nobody listens. */
export async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return `http://127.0.0.1:${port}`;
}

export async function post(url: string, body: unknown, key: string): Promise<{ id: string }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "idempotency-key": key, connection: "close" },
    body: JSON.stringify(body),
  });
  if (!response.ok)
    throw Object.assign(new Error(`the provider answered ${response.status}`), { status: response.status });
  return (await response.json()) as { id: string };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}
