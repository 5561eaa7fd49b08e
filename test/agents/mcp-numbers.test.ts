/** Numbers that a double does not hold, through the proxy to a server that reads and writes their digits. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { bridged, folder, httpProxyOf, proxied, started } from "./lib/mcp.ts";

const BANK = fileURLToPath(new URL("./lib/bank-server.mjs", import.meta.url));

/** Sends a text as it is; the text of the answer. */
type Send = (text: string) => Promise<string>;

function onLines(argv: readonly string[]): Send {
  const child = spawn(process.execPath, argv, { stdio: ["pipe", "pipe", "ignore"] });
  onTestFinished(() => void child.stdin.end());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async (text) => {
    child.stdin.write(`${text}\n`);
    return (await lines.next()).value as string;
  };
}

function posting(url: string): Send {
  const headers = { "content-type": "application/json" };
  return async (body) => (await fetch(url, { method: "POST", headers, body })).text();
}

async function bankOnHttp(file: string): Promise<string> {
  const { found } = await started([BANK, file, "http"], {}, "stdout", /^(\d+)$/);
  return `http://127.0.0.1:${found}/mcp`;
}

/** The server in this file's transport, without the proxy and with it. */
interface Way {
  bare(file: string): Promise<Send>;
  guarded(place: string, file: string, config: object, flags?: readonly string[]): Promise<Send>;
}

const WAYS: Record<string, Way> = {
  stdio: {
    bare: async (file) => onLines([BANK, file]),
    guarded: async (place, file, config, flags) => onLines(proxied(place, [BANK, file], config, flags)),
  },
  http: {
    bare: async (file) => posting(await bankOnHttp(file)),
    guarded: async (place, file, config, flags) =>
      posting((await httpProxyOf(await bankOnHttp(file), place, config, flags)).url),
  },
  "stdio, in front of a URL": {
    bare: async (file) => posting(await bankOnHttp(file)),
    guarded: async (place, file, config, flags) => onLines(bridged(place, await bankOnHttp(file), config, flags)),
  },
};

let count = 0;
const pay = (args: string) => {
  count += 1;
  return `{"jsonrpc":"2.0", "id":${count}, "method":"tools/call","params":{"name":"pay","arguments":${args}}}`;
};

describe.each(Object.entries(WAYS))("over %s", (_, { bare, guarded }) => {
  const lines = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);

  it("two accounts that differ beyond 2^53 are two calls, each reaches the server as it came, and a replay keeps every digit", async () => {
    const [place, file] = [folder(), join(folder(), "calls")];
    const send = await guarded(place, file, { tools: { pay: { key: ["account"], free: ["amount"] } } });
    const [one, two] = [pay('{ "account": 9007199254740993, "amount": 1.0 }'), pay('{"account": 9007199254740992}')];
    const answers = [await send(one), await send(two)];
    expect(answers[0]).toContain('"account":9007199254740993,"rate":0.10000000000000000001}');
    expect(answers[1]).toContain('"account":9007199254740992');
    expect(lines(file)).toEqual([one, two]);
    const without = join(folder(), "calls");
    const sendBare = await bare(without);
    expect([await sendBare(one), await sendBare(two)]).toEqual(answers);
    expect(lines(without)).toEqual([one, two]);
    await sendBare(pay('{"account": 9007199254740993.0, "amount": 2}'));
    expect(lines(without)).toHaveLength(3);
    const again = await send(pay('{"account": 9007199254740993.0, "amount": 2}'));
    expect(again).toMatch(/Already done/);
    expect(again).toContain('"structuredContent":{"account":9007199254740993,"rate":0.10000000000000000001}');
    expect(await send(pay('{"account": 9.007199254740993e15}'))).toMatch(/Already done/);
    expect(lines(file)).toHaveLength(2);
  });

  it("an idempotency key is filled in, and every other byte of the call is as it came", async () => {
    const [place, file] = [folder(), join(folder(), "calls")];
    const config = { tools: { pay: { key: ["account"], keyArgument: "key" } } };
    const send = await guarded(place, file, config, ["--status-tool"]);
    const call = pay('{ "account" : 18446744073709551615 , "amount": 1.0, "e": 1e2 }');
    await send(call);
    const [came = ""] = lines(file);
    expect(came.replace(/,"key":"[^"]+"/, "")).toBe(call);
    expect(came).toMatch(/"key":"nt1_/);
    const list = await send('{"jsonrpc":"2.0","id":"list","method":"tools/list"}');
    expect(list).toContain('"maximum":18446744073709551615');
    expect(list).toContain("nevertwice_status");
  });
});
