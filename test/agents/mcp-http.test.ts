/** The proxy on streamable HTTP, driven by the official client; effects counted at the provider. */
import { request } from "node:http";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  COMMAND,
  connect,
  connectHttp,
  folder,
  httpProxyOf,
  MAIL_SERVER_2,
  mailServerOnHttp,
  said,
  started,
} from "./lib/mcp.ts";

/** Identical calls once within the window, whether their answers arrived or not. */
const INTENT = { guard: "intent" };
const mail = { name: "send_mail", arguments: { to: "ada", body: "Hello" } };

async function both(way: "bare" | "guarded", config?: object) {
  const provider = await startMailProvider();
  const server = await mailServerOnHttp(provider.url);
  if (way === "bare") return { provider, server, url: server, proxy: null, place: "" };
  const place = folder();
  const proxy = await httpProxyOf(server, place, config);
  return { provider, server, url: proxy.url, proxy, place };
}

const ways = [
  { way: "bare", mails: 2 },
  { way: "guarded", mails: 1 },
] as const;

describe("the proxy on streamable HTTP", () => {
  it.each(ways)(
    "F42: the client times out and calls again, and the call is to finish, $way: $mails sent",
    async ({ way, mails }) => {
      const { provider, url } = await both(way, { onTimeout: "finish" });
      const { client } = await connectHttp(url);
      provider.hold();
      await expect(client.callTool(mail, undefined, { timeout: 300 })).rejects.toThrow(/timed out/);
      const again = client.callTool(mail);
      await provider.sent(mails);
      provider.release();
      expect(said(await again)).toContain(`sent mail_${mails}`);
      expect(provider.mails).toHaveLength(mails);
    },
  );

  it.each(["times out", "is told to stop"])(
    "F42: the client %s, and a repeat hears that nobody knows: one mail",
    async (how) => {
      const { provider, url } = await both("guarded");
      const { client } = await connectHttp(url);
      provider.hold();
      const stop = new AbortController();
      const options = how === "times out" ? { timeout: 300 } : { signal: stop.signal };
      const call = client.callTool(mail, undefined, options).catch((error: Error) => error);
      await provider.sent(1);
      stop.abort("the user pressed stop");
      expect(await call).toBeInstanceOf(Error);
      const again = await client.callTool(mail);
      expect(again.isError).toBe(true);
      expect(said(again)).toMatch(/It may have happened all the same/);
      expect(provider.mails).toHaveLength(1);
    },
  );

  it.each(ways)(
    "F42: the client goes away in the middle and comes back with a new session, $way: $mails sent",
    async ({ way, mails }) => {
      const { provider, url } = await both(way);
      const first = await connectHttp(url);
      provider.hold();
      const lost = first.client.callTool(mail).catch((error: Error) => error);
      await provider.sent(1);
      await first.client.close();
      expect(await lost).toBeInstanceOf(Error);
      const second = await connectHttp(url);
      const again = second.client.callTool(mail);
      await provider.sent(mails);
      provider.release();
      expect(said(await again)).toContain(`sent mail_${mails}`);
      expect(provider.mails).toHaveLength(mails);
    },
  );

  it.each(ways)(
    "the session is lost (404) after the call was made, and the call is sent again in a new one, $way: $mails sent",
    async ({ way, mails }) => {
      const { provider, server, url } = await both(way, INTENT);
      const first = await connectHttp(url);
      await first.client.callTool(mail);
      await fetch(new URL("/forget", server));
      await expect(first.client.callTool(mail))
        .rejects.toThrow(way === "bare" ? /Session not found/ : /.*/)
        .catch(() => {});
      const second = await connectHttp(url);
      await second.client.callTool(mail);
      expect(provider.mails).toHaveLength(mails);
    },
  );

  it("a 404 before anything ran is passed on as it came, and the call sent again in a new session is made", async () => {
    const { provider, server, url } = await both("guarded");
    const first = await connectHttp(url);
    await first.client.ping();
    await fetch(new URL("/forget", server));
    await expect(first.client.callTool(mail)).rejects.toThrow(/Session not found/);
    expect(provider.mails).toHaveLength(0);
    const second = await connectHttp(url);
    expect(said(await second.client.callTool(mail))).toBe("sent mail_1");
  });

  it("two sessions of one caller share an intent; another principal never gets the first one's result", async () => {
    const { provider, url } = await both("guarded", INTENT);
    const call = async (authorization: string) => {
      const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
      const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
      const transport = new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization } },
      });
      const client = new Client({ name: "test", version: "1.0.0" });
      await client.connect(transport as Parameters<typeof client.connect>[0]);
      const answer = said(await client.callTool(mail));
      await client.close();
      return answer;
    };
    expect(await call("Bearer ada")).toBe("sent mail_1");
    expect(await call("Bearer ada")).toMatch(/^Already done at .*sent mail_1/s);
    expect(await call("Bearer bob")).toBe("sent mail_2");
    expect(provider.mails).toHaveLength(2);
  });

  it("the proxy is killed in the middle of a call and started again: held as unknown, one mail", async () => {
    const config = {
      tools: { send_mail: { key: ["to"], free: ["body"], lease: "3s", timeout: "2500ms", wait: "30s" } },
    };
    const { provider, server, url, proxy, place } = await both("guarded", config);
    const first = await connectHttp(url);
    provider.hold();
    const lost = first.client.callTool(mail, undefined, { timeout: 1_500 }).catch((error: Error) => error);
    await provider.sent(1);
    proxy?.child.kill("SIGKILL");
    expect(await lost).toBeInstanceOf(Error);
    const again = await httpProxyOf(server, place, config);
    const second = await connectHttp(again.url);
    const answer = await second.client.callTool(mail);
    expect(answer.isError).toBe(true);
    expect(said(answer)).toMatch(/It may have happened all the same/);
    expect(provider.mails).toHaveLength(1);
  });

  it("a page in a browser does not reach it under another name (DNS rebinding)", async () => {
    const { provider, url } = await both("guarded");
    const { hostname, port, pathname } = new URL(url);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: mail });
    const status = await new Promise((answered) => {
      const headers = { host: `evil.example:${port}`, "content-type": "application/json" };
      const sent = request({ hostname, port, path: pathname, method: "POST", headers }, ({ statusCode }) =>
        answered(statusCode),
      );
      sent.end(body);
    });
    expect([status, provider.mails.length]).toEqual([403, 0]);
  });

  it("the official client and server 2.x, without sessions (protocol revision 2026-07-28) and with, over the same proxy", async () => {
    const provider = await startMailProvider();
    const { found } = await started([MAIL_SERVER_2, provider.url, "http"], {}, "stdout", /^(\d+)$/);
    const { url } = await httpProxyOf(`http://127.0.0.1:${found}/mcp`, folder(), INTENT);
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const answers: string[] = [];
    for (const mode of [{ pin: "2026-07-28" }, "legacy", { pin: "2026-07-28" }] as const) {
      const client = new Client({ name: "test", version: "2.0.0" }, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(new URL(url)));
      answers.push(said(await client.callTool(mail)));
      await client.close();
    }
    expect(answers).toEqual([
      "sent mail_1",
      ...Array(2).fill(expect.stringMatching(/^Already done at .*sent mail_1/s)),
    ]);
    expect(provider.mails).toHaveLength(1);
  });

  it("for a client on stdio: a repeat, a timeout, and a session that the server has forgotten", async () => {
    const provider = await startMailProvider();
    const server = await mailServerOnHttp(provider.url);
    const argv = [
      COMMAND,
      "mcp",
      "--store",
      `sqlite:${join(folder(), "ledger.db")}`,
      "--url",
      server,
      "--guard",
      "intent",
    ];
    const { client } = await connect([...argv, "--header", "Authorization: Bearer ada", "--on-timeout", "finish"]);
    provider.hold();
    await expect(client.callTool(mail, undefined, { timeout: 500 })).rejects.toThrow(/timed out/);
    const again = client.callTool(mail);
    await provider.sent(1);
    provider.release();
    expect(said(await again)).toContain("sent mail_1");
    await fetch(new URL("/forget", server));
    expect(said(await client.callTool(mail))).toMatch(/^Already done at/);
    expect(said(await client.callTool({ ...mail, arguments: { to: "bob" } }))).toBe("sent mail_2");
    expect(provider.mails).toHaveLength(2);
  });

  it("a batch with a tool call in it is refused, since it would slip past the guard", async () => {
    const { provider, url } = await both("guarded");
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: mail };
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify([call, { ...call, id: 2 }]) });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("Send each request by itself");
    expect(provider.mails).toHaveLength(0);
  });
});
