/** `limit` of a tool in the proxy's config, through the command and the official client: a call above it is not made. */
import { type ChildProcess, execFile } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../dist/index.js";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  COMMAND,
  connect,
  connectHttp,
  folder,
  httpProxyOf,
  MAIL_SERVER,
  mailServerOnHttp,
  proxied,
  said,
} from "./lib/mcp.ts";

async function scene(over: string, limit: object) {
  const provider = await startMailProvider();
  const place = folder();
  const config = { name: "mail", tools: { send_mail: { key: ["to", "body"], wait: "20s", limit } } };
  const store = `sqlite:${join(place, "ledger.db")}`;
  const server = over === "stdio" ? "" : await mailServerOnHttp(provider.url);
  const proxies: ChildProcess[] = [];
  const enter = async (): Promise<Client> => {
    if (over === "stdio") return (await connect(proxied(place, [MAIL_SERVER, "stdio", provider.url], config))).client;
    if (over === "http") {
      const { child, url } = await httpProxyOf(server, place, config);
      proxies.push(child);
      return (await connectHttp(url)).client;
    }
    const file = join(place, "tools.json");
    writeFileSync(file, JSON.stringify(config));
    return (await connect([COMMAND, "mcp", "--store", store, "--config", file, "--url", server])).client;
  };
  const ledger = nevertwice({ store, sweep: false });
  onTestFinished(() => ledger.close());
  return {
    provider,
    enter,
    records: async () => (await ledger.store.list({ limit: 50, action: "mail/send_mail" })).items.length,
    prevented: async () => {
      // They write their counts at the end.
      for (const child of proxies.splice(0)) {
        child.kill("SIGTERM");
        await once(child, "close");
      }
      const counting = promisify(execFile)(process.execPath, [COMMAND, "prevented", "--json", "--store", store]);
      return JSON.parse((await counting).stdout).entries;
    },
    sent: () => provider.mails.map(({ to, body }) => `${to} ${body}`),
  };
}

const mail = (to: string, body: string) => ({ name: "send_mail", arguments: { to, body } });

/** What a model reads. */
const above = (limit: string) =>
  new RegExp(
    `^It did not happen: its limit is reached \\(${limit}\\)\\. You may call send_mail again, but not before \\d{4}-\\S+Z \\(in [\\d.]+\\w+\\)`,
  );

describe.each(["stdio", "http", "a server on HTTP for a client on stdio"])("limit, over %s", (over) => {
  it("concurrency by destination: above it nothing is made or recorded, and later it may be", async () => {
    const { provider, enter, records, sent } = await scene(over, { concurrency: 1, by: "to" });
    const client = await enter();
    provider.hold();
    const first = client.callTool(mail("ada", "one"));
    await provider.sent(1);
    const refused = await client.callTool(mail("ada", "two"));
    expect([refused.isError, said(refused)]).toEqual([true, expect.stringMatching(above("at most 1 at once"))]);
    expect(await records()).toBe(1);
    // Another destination has places of its own, and a repeat takes none.
    const bob = client.callTool(mail("bob", "one"));
    const repeat = client.callTool(mail("ada", "one"));
    await provider.sent(2);
    provider.release();
    expect([said(await first), said(await bob)]).toEqual(["sent mail_1", "sent mail_2"]);
    expect(said(await repeat)).toMatch(/sent mail_1$/);
    await expect.poll(async () => said(await client.callTool(mail("ada", "two")))).toBe("sent mail_3");
    expect(sent()).toEqual(["ada one", "bob one", "ada two"]);
    expect(await records()).toBe(3);
  });

  it("rate by destination, over all proxies of the ledger", async () => {
    const { enter, records, sent, prevented } = await scene(over, { rate: "1/h", by: "to" });
    const client = await enter();
    expect(said(await client.callTool(mail("ada", "one")))).toBe("sent mail_1");
    const refused = await client.callTool(mail("ada", "two"));
    expect([refused.isError, said(refused)]).toEqual([true, expect.stringMatching(above("one every 1h"))]);
    expect(said(await client.callTool(mail("ada", "one")))).toMatch(/^Already done at .*\nsent mail_1$/s);
    expect(said(await client.callTool(mail("bob", "one")))).toBe("sent mail_2");
    const other = await enter();
    expect(said(await other.callTool(mail("ada", "three")))).toMatch(above("one every 1h"));
    expect(said(await other.callTool(mail("ada", "one")))).toMatch(/^Already done at .*\nsent mail_1$/s);
    expect(sent()).toEqual(["ada one", "bob one"]);
    expect(await records()).toBe(2);
    await client.close();
    await other.close();
    await expect
      .poll(async () => (await prevented()).filter(({ cause }: { cause: string }) => cause === "limit"))
      .toMatchObject([{ action: "mail/send_mail", prevented: 2 }]);
  });

  it("a call that names no destination is not made, and says why", async () => {
    const { enter, records, sent } = await scene(over, { concurrency: 1, by: "amount" });
    const refused = await (await enter()).callTool(mail("ada", "one"));
    expect([refused.isError, said(refused)]).toEqual([true, expect.stringMatching(/limit\.by named no destination/)]);
    expect([sent(), await records()]).toEqual([[], 0]);
  });
});
