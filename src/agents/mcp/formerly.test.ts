/** K10 in the MCP proxy's config: a tool whose key was changed. */
import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { type ProxyConfig, readProxyConfig } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { McpRelay } from "./stdio/relay.ts";

const configOf = (tool: object) => readProxyConfig({ tools: { send: tool } }, "tools.json");
const [OLD, NOW] = [{ key: ["to", "subject"] }, { key: ["to"], free: ["subject"] }];
const FORMERLY = { ...NOW, formerly: { key: ["to", "subject"] } };

it("K10: the config's formerly takes the key that the tool had, and nothing else", () => {
  expect(configOf(FORMERLY)).toEqual({ tools: { send: FORMERLY } });
  const refused: [formerly: unknown, says: RegExp][] = [
    [{}, /tools\.json: tools\.send\.formerly needs the key that the tool had/],
    [{ key: "to" }, /tools\.send\.formerly\.key/],
    [["to"], /tools\.send\.formerly/],
    [{ key: ["to"], name: "mail" }, /tools\.send\.formerly.*"name"/],
    ["to", /tools\.send\.formerly/],
  ];
  for (const [formerly, says] of refused) expect(() => configOf({ ...NOW, formerly })).toThrow(says);
});

it("K10: what the proxy did under the old key of a tool is a repeat under the new one", async () => {
  const store = memoryStore();
  const proxy = (config: ProxyConfig) => {
    // Each proxy is a process of its own.
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const [toServer, toClient]: [string[], string[]] = [[], []];
    const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
    const relay = new McpRelay({
      guard,
      graceMs: 20,
      toServer: (line) => void toServer.push(line),
      toClient: (line) => void toClient.push(line),
    });
    const call = async (id: number, to: string, subject: string) => {
      const params = { name: "send", arguments: { to, subject } };
      const before = toServer.length;
      relay.fromClient(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params }));
      await expect.poll(() => toServer.length > before || toClient.length > 0).toBe(true);
      if (toServer.length > before) {
        const result = { content: [{ type: "text", text: `sent mail_${id}` }] };
        relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id, result }));
      }
      await relay.idle();
      return { answer: toClient.splice(0).join("\n"), calls: toServer.length };
    };
    return { call };
  };
  expect(await proxy(configOf(OLD)).call(1, "ada", "hello")).toMatchObject({ calls: 1 });
  const now = proxy(configOf(FORMERLY));
  expect(await now.call(2, "ada", "hello")).toEqual({ answer: expect.stringContaining("mail_1"), calls: 0 });
  expect(await now.call(3, "bob", "hello")).toMatchObject({ calls: 1 });
  // An old proxy that still runs, and one after formerly was taken out, know what was sent meanwhile.
  expect(await proxy(configOf(OLD)).call(4, "bob", "hello")).toEqual({
    answer: expect.stringContaining("mail_3"),
    calls: 0,
  });
  expect(await proxy(configOf(NOW)).call(5, "bob", "hello")).toEqual({
    answer: expect.stringContaining("mail_3"),
    calls: 0,
  });
});
