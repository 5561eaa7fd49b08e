/** The proxy on stdio in front of real MCP servers, driven by the official client. Effects are counted where they land. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";
import { nevertwice } from "../../src/index.ts";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  connect,
  connectHttp,
  EVERYTHING,
  FILESYSTEM,
  folder,
  httpProxyOf,
  MAIL_SERVER,
  MAIL_SERVER_2,
  MEMORY,
  mailServerOnHttp,
  proxied,
  said,
} from "./lib/mcp.ts";

/** Identical calls once within the window, whether their answers arrived or not. */
const INTENT = ["--guard", "intent"];
const mail = { name: "send_mail", arguments: { to: "ada", body: "Hello" } };

/** Both ways of the same story: through the proxy, and without it. */
const ways = [
  { way: "bare", times: 3 },
  { way: "guarded", times: 1 },
] as const;

describe("servers from npm", () => {
  it.each(ways)("A3: server-filesystem: three edits alike, $way: $times happen", async ({ way, times }) => {
    const root = folder();
    const file = join(root, "log.txt");
    writeFileSync(file, "x");
    const server = [FILESYSTEM, root];
    const { client } = await connect(way === "bare" ? server : proxied(folder(), server, undefined, INTENT));
    const edit = { path: file, edits: [{ oldText: "x", newText: "xy" }] };
    const answers = [];
    for (let i = 0; i < 3; i += 1) answers.push(said(await client.callTool({ name: "edit_file", arguments: edit })));
    expect(readFileSync(file, "utf8")).toBe(`x${"y".repeat(times)}`);
    expect(answers.filter((answer) => answer.startsWith("Already done at"))).toHaveLength(3 - times);
  });

  it.each([
    { config: undefined, holds: "1" },
    { config: { tools: { write_file: {} } }, holds: "2" },
  ])(
    "A3: server-filesystem: write_file declares idempotentHint, and passes unless the config names it",
    async ({ config, holds }) => {
      const root = folder();
      const path = join(root, "a.txt");
      const { client } = await connect(proxied(folder(), [FILESYSTEM, root], config));
      for (const content of ["1", "2", "1"])
        await client.callTool({ name: "write_file", arguments: { path, content } });
      expect(readFileSync(path, "utf8")).toBe(holds);
    },
  );

  it("A3: server-memory: a repeat gets the first answer, also from a proxy that was started again", async () => {
    const place = folder();
    const env = { MEMORY_FILE_PATH: join(place, "memory.jsonl") };
    const entity = {
      name: "create_entities",
      arguments: { entities: [{ name: "Ada", entityType: "person", observations: [] }] },
    };
    const first = await connect(proxied(place, [MEMORY], undefined, INTENT), env);
    const made = await first.client.callTool(entity);
    await first.close();
    const second = await connect(proxied(place, [MEMORY], undefined, INTENT), env);
    const again = (await second.client.callTool(entity)) as { content: object[]; structuredContent?: object };
    expect(said(again)).toMatch(/^Already done at .*create_entities was not run again/);
    // What the server answered first, not what it would answer now (that nothing was created).
    expect(again.content.slice(1)).toEqual(made.content);
    expect(again.structuredContent).toEqual(made.structuredContent);
  });

  it("read-only tools pass: each call is made", async () => {
    const { client } = await connect(proxied(folder(), [EVERYTHING]));
    const sum = { name: "get-sum", arguments: { a: 1, b: 2 } };
    const answers = [await client.callTool(sum), await client.callTool(sum)];
    expect(answers[1]).toEqual(answers[0]);
  });

  it("without config an error is an answer, and arguments the server refused may be corrected and sent again", async () => {
    const root = folder();
    const { client } = await connect(proxied(folder(), [FILESYSTEM, root], undefined, INTENT));
    const move = { name: "move_file", arguments: { source: join(root, "a"), destination: join(root, "b") } };
    const failed = await client.callTool(move);
    expect(failed.isError).toBe(true);
    writeFileSync(join(root, "a"), "");
    // An error does not prove that nothing was done: it is not run again, and not reported as done.
    expect(said(await client.callTool(move))).toMatch(
      /^It may have happened: move_file was called for this at .*ENOENT/s,
    );
    const wrong = await client.callTool({ name: "move_file", arguments: { source: 1 } });
    const wrongAgain = await client.callTool({ name: "move_file", arguments: { source: 1 } });
    expect(said(wrong)).toContain("-32602");
    expect(wrongAgain).toEqual(wrong);
  });
});

describe("a model that corrects its call", () => {
  const config = { tools: { send_mail: { key: ["body"], errors: "not-done" } } };
  const call = (to: string) => ({ name: "send_mail", arguments: { to, body: "Hello" } });

  it.each(["stdio", "http"])(
    "O4 O5: the server's error is passed on, the first correction gets through, and a lost reply still holds, over %s",
    async (transport) => {
      const provider = await startMailProvider();
      const place = folder();
      const client =
        transport === "stdio"
          ? (await connect(proxied(place, [MAIL_SERVER, "stdio", provider.url], config))).client
          : (await connectHttp((await httpProxyOf(await mailServerOnHttp(provider.url), place, config)).url)).client;
      const mistaken = await client.callTool(call("nobody"));
      expect(mistaken).toMatchObject({ isError: true, content: [{ text: "no such address" }] });
      expect(said(await client.callTool(call("ada")))).toBe("sent mail_1");
      expect(said(await client.callTool(call("ada")))).toMatch(/^Already done at .*sent mail_1/s);
      provider.dropNext();
      const lost = (to: string) => ({ name: "send_mail", arguments: { to, body: "Again" } });
      expect(said(await client.callTool(lost("bob")))).toMatch(/It may have happened all the same/);
      expect(said(await client.callTool(lost("carol")))).toMatch(/It may have happened all the same/);
      expect(provider.mails.map(({ to }) => to)).toEqual(["ada", "bob"]);
    },
  );
});

describe("calls in trouble", () => {
  it.each([
    { way: "bare", mails: 2 },
    { way: "guarded", mails: 1 },
  ])(
    "F42: the client times out and calls again, and the call is to finish, $way: $mails sent",
    async ({ way, mails }) => {
      const provider = await startMailProvider();
      const server = [MAIL_SERVER, "stdio", provider.url];
      const finish = ["--on-timeout", "finish"];
      const { client } = await connect(way === "bare" ? server : proxied(folder(), server, undefined, finish));
      provider.hold();
      await expect(client.callTool(mail, undefined, { timeout: 300 })).rejects.toThrow(/timed out/);
      const again = client.callTool(mail);
      await provider.sent(mails);
      provider.release();
      expect(said(await again)).toContain(`sent mail_${mails}`);
      expect(provider.mails).toHaveLength(mails);
    },
  );

  it("two calls in one turn: one mail, one answer for both", async () => {
    const provider = await startMailProvider();
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url]));
    const answers = await Promise.all([client.callTool(mail), client.callTool(mail)]);
    expect(answers.map((answer) => said(answer).split("\n").at(-1))).toEqual(["sent mail_1", "sent mail_1"]);
    expect(provider.mails).toHaveLength(1);
  });

  it("F26: a call that outlives its timeout: its caller gets the answer, and the ledger the evidence", async () => {
    const provider = await startMailProvider();
    const slow = { tools: { send_mail: { key: ["to"], lease: "400ms", timeout: "300ms", wait: 0 } } };
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url], slow));
    provider.hold();
    const call = client.callTool(mail);
    await provider.sent(1);
    // Others hear that it is in progress, then that nobody knows.
    await expect
      .poll(async () => said(await client.callTool(mail)), { timeout: 20_000 })
      .toMatch(/It may have happened all the same/);
    provider.release();
    expect(said(await call)).toBe("sent mail_1");
    await expect.poll(async () => said(await client.callTool(mail)), { timeout: 20_000 }).toMatch(/^Already done at/);
    expect(provider.mails).toHaveLength(1);
  });

  it.each([
    { asked: "2026-07-28", mode: { pin: "2026-07-28" } },
    { asked: "2025-11-25", mode: "legacy" as const },
  ])("the official client and server 2.x, protocol revision $asked, over the same proxy", async ({ mode }) => {
    const provider = await startMailProvider();
    const { Client } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const place = folder();
    const call = async (negotiated: "auto" | typeof mode, args = mail) => {
      const client = new Client({ name: "test", version: "2.0.0" }, { versionNegotiation: { mode: negotiated } });
      const argv = proxied(place, [MAIL_SERVER_2, provider.url], {
        tools: { send_mail: { key: ["to"], free: ["body"] } },
      });
      await client.connect(new StdioClientTransport({ command: process.execPath, args: argv, stderr: "ignore" }));
      const answer = said(await client.callTool(args));
      await client.close();
      return answer;
    };
    expect(await call(mode)).toBe("sent mail_1");
    expect(await call(mode)).toMatch(/^Already done at .*sent mail_1/s);
    // A first result stored for one revision is told in the other too.
    for (const other of ["legacy", { pin: "2026-07-28" }] as const)
      expect(await call(other)).toMatch(/^Already done at/);
    expect(provider.mails).toHaveLength(1);
  });

  it("a cancellation reaches the server; afterwards the call is in doubt, and not made again", async () => {
    const provider = await startMailProvider();
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url]));
    provider.hold();
    const stop = new AbortController();
    const call = client.callTool(mail, undefined, { signal: stop.signal });
    await provider.sent(1);
    stop.abort("the user pressed stop");
    await expect(call).rejects.toThrow();
    const again = await client.callTool(mail);
    expect(again.isError).toBe(true);
    expect(said(again)).toMatch(/It may have happened all the same/);
    provider.release();
    expect(said(await client.callTool(mail))).toMatch(/It may have happened all the same/);
    expect(provider.mails).toHaveLength(1);
  });

  it("the proxy is killed in the middle of a call and started again: held as unknown, one mail", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const quick = {
      tools: { send_mail: { key: ["to"], free: ["body"], lease: "3s", timeout: "2500ms", wait: "30s" } },
    };
    const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], quick);
    const first = await connect(argv);
    provider.hold();
    const lost = first.client.callTool(mail).catch((error: Error) => error);
    await provider.sent(1);
    process.kill(first.pid, "SIGKILL");
    expect(await lost).toBeInstanceOf(Error);
    const second = await connect(argv);
    const again = await second.client.callTool({ ...mail, arguments: { to: "ada", body: "reworded" } });
    expect(again.isError).toBe(true);
    expect(said(again)).toMatch(/It may have happened all the same/);
    expect(provider.mails).toHaveLength(1);
  });

  it("A4: … and where the server can be asked, the proxy looks: done, and the model is told", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const verify = { tool: "list_mails", match: { to: "$to" }, quietFor: "200ms" };
    const quick = {
      tools: { send_mail: { key: ["to"], free: ["body"], lease: "6s", timeout: "5s", wait: "40s", verify } },
    };
    const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], quick);
    const first = await connect(argv);
    provider.hold();
    const lost = first.client.callTool(mail).catch((error: Error) => error);
    await provider.sent(1);
    process.kill(first.pid, "SIGKILL");
    await lost;
    const second = await connect(argv);
    const again = await second.client.callTool(mail);
    expect(again.isError).toBeUndefined();
    expect(said(again)).toMatch(/^Already done at .*"id":"mail_1"/s);
    expect(provider.mails).toHaveLength(1);
  });

  it("the provider's answer is lost: without a config the server's error is an answer, kept for the window", async () => {
    const provider = await startMailProvider();
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url], undefined, INTENT));
    provider.dropNext();
    expect((await client.callTool(mail)).isError).toBe(true);
    expect(said(await client.callTool(mail))).toMatch(/^It may have happened: send_mail was called.*fetch failed/s);
    expect(provider.mails).toHaveLength(1);
  });

  it("the server dies in the middle of a call: the proxy ends with it, and the ledger holds the call as unknown", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const dying = [MAIL_SERVER, "stdio", provider.url, "die"];
    const { client } = await connect(proxied(place, dying));
    await client.callTool(mail).catch((error: Error) => error);
    await provider.sent(1);
    const second = await connect(proxied(place, dying));
    const again = await second.client.callTool(mail);
    expect(again.isError).toBe(true);
    expect(said(again)).toMatch(
      /It may have happened all the same .*the MCP server ended before it answered|leaves open how far it got/s,
    );
    expect(provider.mails).toHaveLength(1);
  });
});

describe("with a config", () => {
  const config = { name: "mails", statusTool: true, tools: { send_mail: { key: ["to"], free: ["body"], keep: "1d" } } };

  it("K3 F2: a reworded body is the same intent, a changed amount a clear refusal", async () => {
    const provider = await startMailProvider();
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url], config));
    const call = (args: object) => client.callTool({ name: "send_mail", arguments: { ...args } });
    await call({ to: "ada", body: "Hello", amount: 5 });
    expect(said(await call({ to: "ada", body: "Good day", amount: 5 }))).toMatch(/Your body differs.*sent mail_1/s);
    const refused = await call({ to: "ada", body: "Hello", amount: 6 });
    expect(refused.isError).toBe(true);
    expect(said(refused)).toMatch(
      /^Refused, and nothing was done: send_mail was already called for this with another amount/,
    );
    expect(provider.mails).toHaveLength(1);
  });

  it("A4: an error result is doubt, with a reference that the status tool knows; the ledger shows it under the server's name", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const { client } = await connect(proxied(place, [MAIL_SERVER, "stdio", provider.url], config));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["send_mail", "list_mails", "nevertwice_status"]);
    const failed = said(await client.callTool({ name: "send_mail", arguments: { to: "nobody" } }));
    expect(failed).toMatch(/^send_mail failed: no such address\. It may have happened all the same/);
    const [reference] = /nt1_[0-9a-v]{52}/.exec(failed) ?? [];
    const status = await client.callTool({ name: "nevertwice_status", arguments: { reference } });
    expect(said(status)).toMatch(/^It may have happened \(2/);
    await client.close();
    const nt = nevertwice({ store: `sqlite:${join(place, "ledger.db")}`, sweep: false });
    const { items } = await nt.store.list({ limit: 10, action: "mails/send_mail" });
    await nt.close();
    expect(items.map(({ record }) => [record.action, record.state])).toEqual([["mails/send_mail", "unknown"]]);
  });

  it("the key travels to a server that takes one, whatever the model wrote there", async () => {
    const provider = await startMailProvider();
    const keyed = { tools: { send_mail: { key: ["to"], keyArgument: "body" } } };
    const { client } = await connect(proxied(folder(), [MAIL_SERVER, "stdio", provider.url], keyed));
    await client.callTool({ name: "send_mail", arguments: { to: "ada", body: "a key the model made up" } });
    await client.callTool({ name: "send_mail", arguments: { to: "ada", body: "another" } });
    expect(provider.mails.map(({ body }) => body)).toEqual([expect.stringMatching(/^nt1_[0-9a-v]{52}$/)]);
  });
});
