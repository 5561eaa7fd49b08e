/** `repeats` in the proxy's config: identical calls of one connection count as first, second, …; a call that had no answer is none of them. */
import { request as httpRequest } from "node:http";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { describe, expect, it } from "vitest";
import { type MailProvider, startMailProvider } from "./lib/mail-provider.ts";
import { connect, connectHttp, folder, httpProxyOf, MAIL_SERVER, mailServerOnHttp, proxied, said } from "./lib/mcp.ts";

const config = { tools: { send_mail: { key: ["to"], free: ["body"], repeats: 2, wait: "40s" } } };
const mail = (more: object = {}) => ({ name: "send_mail", arguments: { to: "ada", body: "Hello", ...more } });

interface At {
  readonly provider: MailProvider;
  readonly client: Client;
  /** Another client, of the same proxy over HTTP and of another one on stdio. */
  again(): Promise<Client>;
}

const OVER: Record<string, () => Promise<At & { readonly url?: string }>> = {
  stdio: async () => {
    const provider = await startMailProvider();
    const place = folder();
    const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], config);
    const { client, close } = await connect(argv);
    const again = async () => {
      await close();
      return (await connect(argv)).client;
    };
    return { provider, client, again };
  },
  http: async () => {
    const provider = await startMailProvider();
    const { url } = await httpProxyOf(await mailServerOnHttp(provider.url), folder(), config);
    return {
      provider,
      url,
      client: (await connectHttp(url)).client,
      again: async () => (await connectHttp(url)).client,
    };
  },
};

describe.each(Object.keys(OVER))("repeats of a connection over %s", (over) => {
  const start = OVER[over] as (typeof OVER)[string];
  const call = async (client: Client, more?: object) => said(await client.callTool(mail(more)));

  it("one after the other: two are made, the third is the second's repeat; a new connection begins with the first", async () => {
    const { provider, client, again } = await start();
    expect(await call(client)).toBe("sent mail_1");
    expect(await call(client, { body: "Good day" })).toBe("sent mail_2");
    expect(await call(client)).toMatch(/^Already done at .*sent mail_2/s);
    const other = await again();
    expect(await call(other)).toMatch(/^Already done at .*sent mail_1/s);
    expect(await call(other)).toMatch(/^Already done at .*sent mail_2/s);
    expect(provider.mails).toHaveLength(2);
  });

  it("at the same time: two are made, the third joins the second", async () => {
    const { provider, client } = await start();
    provider.hold();
    const calls = [call(client), call(client), call(client)];
    await provider.sent(2);
    provider.release();
    const told = await Promise.all(calls);
    expect(told.filter((one) => one.startsWith("Already done"))).toHaveLength(1);
    expect(provider.mails).toHaveLength(2);
  });

  it("another amount is none of them: refused, as without repeats", async () => {
    const { provider, client } = await start();
    await call(client, { amount: 5 });
    expect(await call(client, { amount: 6 })).toMatch(/^Refused, and nothing was done/);
    expect(provider.mails).toHaveLength(1);
  });

  it("the client times out and calls again: it is the same call", async () => {
    const { provider, client } = await start();
    provider.hold();
    await expect(client.callTool(mail(), undefined, { timeout: 300 })).rejects.toThrow(/timed out/i);
    await provider.sent(1);
    const again = call(client);
    provider.release();
    expect(await again).toMatch(/sent mail_1|It may have happened all the same/);
    expect(provider.mails).toHaveLength(1);
  });

  it("an answer that was lost on the way to the server is held, however often it is called", async () => {
    const { provider, client } = await start();
    provider.dropNext();
    for (let time = 0; time < 3; time += 1) expect(await call(client)).toMatch(/It may have happened all the same/);
    expect(provider.mails).toHaveLength(1);
  });

  it("of two at once, one is in doubt: it is held, and the other is not made again", async () => {
    const { provider, client } = await start();
    provider.dropNext();
    const told = await Promise.all([call(client), call(client)]);
    expect(told.filter((one) => one.includes("may have happened"))).toHaveLength(1);
    for (let time = 0; time < 2; time += 1) expect(await call(client)).toMatch(/It may have happened all the same/);
    expect(provider.mails).toHaveLength(2);
  });
});

it("over HTTP a client that goes away in the middle, and calls again in its session, makes the same call", async () => {
  const { provider, client, url } = await (OVER.http as (typeof OVER)[string])();
  const { transport } = await connectHttp(url as string);
  const send = (id: number) => {
    const request = httpRequest(url as string, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-session-id": transport.sessionId as string,
      },
    });
    request.on("error", () => {});
    request.end(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: mail() }));
    return request;
  };
  provider.hold();
  const gone = send(101);
  await provider.sent(1);
  gone.destroy();
  await new Promise((closed) => gone.once("close", closed));
  // By then the proxy has heard of it.
  for (let time = 0; time < 3; time += 1) await client.listTools();
  const answer = new Promise<string>((read) => {
    send(102).on("response", async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      read(text);
    });
  });
  provider.release();
  expect(await answer).toMatch(/Already done at .*sent mail_1/s);
  expect(provider.mails).toHaveLength(1);
});

it.each([
  [{ repeats: 0 }, /tools\.send_mail: repeats is 0; it takes how many identical calls/],
  [{ repeats: "2" }, /tools\.send_mail: repeats is "2"/],
  [{ repeats: 2, guard: "undelivered" }, /tools\.send_mail: repeats is for calls that are known by their key/],
])("what is wrong in the config is told at the start: %j", async (own, why) => {
  const { readProxyConfig } = await import("../../src/agents/mcp/config.ts");
  expect(() => readProxyConfig({ tools: { send_mail: own } }, "tools.json")).toThrow(why);
});
