/** Numbers that a double does not hold, through the proxy to a server that reads and writes their digits. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { folder, httpProxyOf, proxied, started } from "./lib/mcp.ts";

const BANK = fileURLToPath(new URL("./lib/bank-server.mjs", import.meta.url));

/** Sends a text as it is; the text of the answer. */
type Send = (text: string) => Promise<string>;

async function overStdio(place: string, file: string, config?: object, flags: readonly string[] = []): Promise<Send> {
  const child = spawn(process.execPath, proxied(place, [BANK, file], config, flags), {
    stdio: ["pipe", "pipe", "ignore"],
  });
  onTestFinished(() => void child.stdin.end());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async (text) => {
    child.stdin.write(`${text}\n`);
    return (await lines.next()).value as string;
  };
}

async function overHttp(place: string, file: string, config?: object, flags: readonly string[] = []): Promise<Send> {
  const { found } = await started([BANK, file, "http"], {}, "stdout", /^(\d+)$/);
  const { url } = await httpProxyOf(`http://127.0.0.1:${found}/mcp`, place, config, flags);
  const headers = { "content-type": "application/json" };
  return async (body) => (await fetch(url, { method: "POST", headers, body })).text();
}

let count = 0;
const pay = (args: string) => {
  count += 1;
  return `{"jsonrpc":"2.0", "id":${count}, "method":"tools/call","params":{"name":"pay","arguments":${args}}}`;
};

describe.each([
  ["stdio", overStdio],
  ["http", overHttp],
] as const)("over %s", (_, connected) => {
  const lines = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);

  it("two accounts that differ beyond 2^53 are two calls, each reaches the server as it came, and a replay keeps every digit", async () => {
    const [place, file] = [folder(), join(folder(), "calls")];
    const send = await connected(place, file, { tools: { pay: { key: ["account"], free: ["amount"] } } });
    const [one, two] = [pay('{ "account": 9007199254740993, "amount": 1.0 }'), pay('{"account": 9007199254740992}')];
    expect(await send(one)).toContain('"account":9007199254740993,"rate":0.10000000000000000001}');
    expect(await send(two)).toContain('"account":9007199254740992');
    expect(lines(file)).toEqual([one, two]);
    const again = await send(pay('{"account": 9007199254740993.0, "amount": 2}'));
    expect(again).toMatch(/Already done/);
    expect(again).toContain('"structuredContent":{"account":9007199254740993,"rate":0.10000000000000000001}');
    expect(await send(pay('{"account": 9.007199254740993e15}'))).toMatch(/Already done/);
    expect(lines(file)).toHaveLength(2);
  });

  it("an idempotency key is filled in, and every other byte of the call is as it came", async () => {
    const [place, file] = [folder(), join(folder(), "calls")];
    const config = { tools: { pay: { key: ["account"], keyArgument: "key" } } };
    const send = await connected(place, file, config, ["--status-tool"]);
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
