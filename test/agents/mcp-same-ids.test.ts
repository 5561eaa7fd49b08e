/**
 * A client that uses the id of a request that is under way, through the command. Without the proxy both calls are made, and nobody can
 * tell whose answer is whose. The proxy makes the first, and records it under what it was.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { type MailProvider, startMailProvider } from "./lib/mail-provider.ts";
import { bridged, folder, httpProxyOf, MAIL_SERVER, mailServerOnHttp, proxied, said } from "./lib/mcp.ts";

// biome-ignore lint/suspicious/noExplicitAny: messages as they come
type Any = any;

/** A client without an SDK, which would not do this. */
interface Raw {
  send(message: object): void;
  /** All that came, in its order. */
  readonly came: Any[];
}

function onLines(argv: readonly string[]): Raw {
  const child = spawn(process.execPath, argv, { stdio: ["pipe", "pipe", "ignore"] });
  onTestFinished(() => void child.stdin.end());
  const came: Any[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (line.trim() !== "") came.push(JSON.parse(line));
  });
  return { came, send: (message) => void child.stdin.write(`${JSON.stringify(message)}\n`) };
}

function posting(url: string): Raw {
  const came: Any[] = [];
  let session: string | null = null;
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const post = async (message: object) => {
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const own = session === null ? headers : { ...headers, "mcp-session-id": session };
    const response = await fetch(url, {
      method: "POST",
      headers: own,
      body: JSON.stringify(message),
      signal: leaving.signal,
    });
    session ??= response.headers.get("mcp-session-id");
    const text = await response.text();
    const data = text.startsWith("{")
      ? [text]
      : [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => json as string);
    came.push(...data.map((json) => JSON.parse(json)));
  };
  return { came, send: (message) => void post(message).catch(() => {}) };
}

const config = { tools: { send_mail: { key: ["to"], free: ["body"] } } };

type Dial = (provider: MailProvider) => Promise<Raw>;
const WAYS: Record<string, { readonly bare: Dial; readonly guarded: Dial }> = {
  stdio: {
    bare: async ({ url }) => onLines([MAIL_SERVER, "stdio", url]),
    guarded: async ({ url }) => onLines(proxied(folder(), [MAIL_SERVER, "stdio", url], config)),
  },
  http: {
    bare: async ({ url }) => posting(await mailServerOnHttp(url)),
    guarded: async ({ url }) => posting((await httpProxyOf(await mailServerOnHttp(url), folder(), config)).url),
  },
  "stdio, in front of a URL": {
    bare: async ({ url }) => posting(await mailServerOnHttp(url)),
    guarded: async ({ url }) => onLines(bridged(folder(), await mailServerOnHttp(url), config)),
  },
};

const TIMEOUT = { timeout: 20_000 };

/** Two calls with one id, the second while the first is under way. */
async function twoWithOneId(dial: Dial) {
  const provider = await startMailProvider();
  const raw = await dial(provider);
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
  raw.send({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  await expect.poll(() => raw.came.length, TIMEOUT).toBe(1);
  raw.send({ jsonrpc: "2.0", method: "notifications/initialized" });
  const call = (id: number, to: string) =>
    raw.send({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "send_mail", arguments: { to } } });
  provider.hold();
  call(7, "ada");
  await provider.sent(1);
  call(7, "bob");
  const answered = async (id: number, to: string) => {
    const before = raw.came.length;
    call(id, to);
    await expect.poll(() => raw.came.length, TIMEOUT).toBe(before + 1);
    return said(raw.came.at(-1).result);
  };
  return { provider, raw, answered };
}

describe.each(Object.entries(WAYS))("over %s", (way, { bare, guarded }) => {
  it("without the proxy both are made", async () => {
    const { provider } = await twoWithOneId(bare);
    await provider.sent(2);
    expect(provider.mails.map(({ to }) => to)).toEqual(["ada", "bob"]);
  });

  it("the second is refused, and is made under an id of its own; each is recorded as what it was", async () => {
    const { provider, raw, answered } = await twoWithOneId(guarded);
    await expect.poll(() => raw.came.length, TIMEOUT).toBe(2);
    // On lines, an answer under the id is the first call's; over HTTP each request has a response of its own.
    expect(raw.came[1]).toMatchObject({
      id: way === "http" ? 7 : null,
      error: { message: expect.stringMatching(/^Not run: .* under way/) },
    });
    provider.release();
    await expect.poll(() => raw.came.length, TIMEOUT).toBe(3);
    expect([raw.came[2].id, said(raw.came[2].result)]).toEqual([7, "sent mail_1"]);
    // From here on the id is free.
    expect(await answered(7, "bob")).toBe("sent mail_2");
    expect(await answered(8, "ada")).toMatch(/^Already done at .*sent mail_1$/s);
    expect(await answered(9, "bob")).toMatch(/^Already done at .*sent mail_2$/s);
    expect(provider.mails.map(({ to }) => to)).toEqual(["ada", "bob"]);
  });
});
