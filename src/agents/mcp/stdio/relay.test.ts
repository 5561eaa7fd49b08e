import { expect, it, onTestFinished } from "vitest";
import { steeredClock } from "../../../../test/support/each-store.ts";
import type { LedgerRecord } from "../../../core/record.ts";
import { nevertwice } from "../../../nevertwice.ts";
import { memoryStore } from "../../../stores/memory.ts";
import type { ProxyConfig } from "../config.ts";
import { McpGuard } from "../guard.ts";
import { McpRelay } from "./relay.ts";

/** A relay between two ends that are written down. */
function relayed(config: ProxyConfig, clock = steeredClock(), warned?: (message: string) => void) {
  const onWarning = warned && { onWarning: ({ message }: { message: string }) => warned(message) };
  const nt = nevertwice({ store: memoryStore({ clock }), sweep: false, ...onWarning });
  onTestFinished(() => nt.close());
  const [toServer, toClient]: string[][] = [[], []];
  const guard = new McpGuard({ nt, config, server: "mail", identity: "mail" });
  const relay = new McpRelay({
    guard,
    graceMs: 20,
    toServer: (line) => void toServer?.push(line),
    toClient: (line) => void toClient?.push(line),
  });
  return { nt, relay, toServer: toServer as string[], toClient: toClient as string[] };
}

const call = (id: number) =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "send", arguments: { to: "ada" } } });
const cancel = (requestId: number, reason: string) =>
  JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
const answer = (id: number, result: object) => JSON.stringify({ jsonrpc: "2.0", id, result });

const tools = { send: { key: ["to"], wait: 0 } };
const sent = { content: [{ type: "text", text: "sent mail_1" }] };
const TIMED_OUT = "McpError: MCP error -32001: Request timed out";

it("F42: every cancellation is passed on as it came; the call is then in doubt, and a repeat says so", async () => {
  for (const reason of [TIMED_OUT, "the user pressed stop"]) {
    const { relay, toServer, toClient } = relayed({ tools });
    relay.fromClient(call(1));
    await expect.poll(() => toServer).toEqual([call(1)]);
    relay.fromClient(cancel(1, reason));
    expect(toServer).toEqual([call(1), cancel(1, reason)]);
    await relay.idle();
    expect(toClient).toEqual([]);
    relay.fromClient(call(2));
    await relay.idle();
    expect(toClient[0]).toMatch(/It may have happened all the same .*: aborted/);
    expect(toServer).toHaveLength(2);
  }
});

it("F26: a server that does not heed a cancellation settles the doubt with its late answer, an error settles nothing", async () => {
  const { relay, toServer, toClient } = relayed({ tools });
  relay.fromClient(call(1));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromClient(cancel(1, TIMED_OUT));
  await relay.idle();
  relay.fromServer(answer(1, sent));
  // It reaches the client too, as without the proxy.
  expect(toClient).toEqual([answer(1, sent)]);
  await expect
    .poll(async () => {
      relay.fromClient(call(2));
      await relay.idle();
      return toClient.at(-1);
    })
    .toMatch(/Already done at .*sent mail_1/);
  expect(toServer).toHaveLength(2);

  const failing = relayed({ tools });
  failing.relay.fromClient(call(1));
  await expect.poll(() => failing.toServer).toHaveLength(1);
  failing.relay.fromClient(cancel(1, TIMED_OUT));
  await failing.relay.idle();
  failing.relay.fromServer(answer(1, { isError: true, content: [{ type: "text", text: "aborted" }] }));
  failing.relay.fromClient(call(2));
  await failing.relay.idle();
  expect(failing.toClient.at(-1)).toMatch(/It may have happened all the same/);
});

it("F26 G2: a late answer to a call that was corrected since says nothing about the corrected one", async () => {
  const mail = (id: number, body: string) =>
    JSON.stringify({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: "send", arguments: { to: "ada", body } },
    });
  const done = (text: string) => ({ content: [{ type: "text", text }] });
  const { nt, relay, toServer, toClient } = relayed({ tools });
  const events: string[] = [];
  nt.on(({ type }) => void events.push(type));
  const only = async () => (await nt.store.list({ limit: 2 })).items[0]?.record as LedgerRecord;
  relay.fromClient(mail(1, "worng"));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromClient(cancel(1, TIMED_OUT));
  await relay.idle();
  const { key } = await only();
  await nt.resolve({ key }, { as: "not-done", by: "ana", reason: "looked too early" });
  relay.fromClient(mail(2, "right"));
  await expect.poll(() => toServer).toHaveLength(3);
  relay.fromClient(cancel(2, TIMED_OUT));
  await relay.idle();
  // In doubt itself, it is not settled by the answer of the first.
  relay.fromServer(answer(1, done("mail with worng")));
  await expect.poll(() => events).toContain("duplicate_detected");
  expect(await only()).toMatchObject({ state: "unknown", doubted: true });
  relay.fromServer(answer(2, done("mail with right")));
  await expect.poll(only).toMatchObject({ state: "confirmed" });
  relay.fromClient(mail(3, "right"));
  await relay.idle();
  expect(toClient.at(-1)).toMatch(/Already done at .*mail with right/);
});

it('F42: onTimeout: "finish" keeps a timeout\'s cancellation back, and no other; per tool, or for all', async () => {
  for (const config of [{ tools, onTimeout: "finish" }, { tools: { send: { ...tools.send, onTimeout: "finish" } } }]) {
    const { relay, toServer, toClient } = relayed(config as ProxyConfig);
    relay.fromClient(call(1));
    await expect.poll(() => toServer).toHaveLength(1);
    relay.fromClient(cancel(1, TIMED_OUT));
    relay.fromServer(answer(1, sent));
    await relay.idle();
    expect(toServer).toEqual([call(1)]);
    relay.fromClient(call(2));
    await relay.idle();
    expect(toClient.at(-1)).toMatch(/Already done at .*sent mail_1/);
  }
  const { relay, toServer } = relayed({ tools, onTimeout: "finish" });
  relay.fromClient(call(1));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromClient(cancel(1, "the user pressed stop"));
  expect(toServer.at(-1)).toBe(cancel(1, "the user pressed stop"));
  await relay.idle();
});

it.each([
  ["15 minutes unless told otherwise", {}, 15 * 60_000],
  ["what --window says", { window: "2h" }, 2 * 3_600_000],
])(
  "A3: with guard: intent, identical calls of a tool without a config are made once within a window: %s",
  async (_, config, ms) => {
    const clock = steeredClock();
    const { relay, toServer, toClient } = relayed({ guard: "intent", ...config }, clock);
    relay.fromClient(JSON.stringify({ jsonrpc: "2.0", id: 0, method: "tools/list" }));
    relay.fromServer(answer(0, { tools: [{ name: "send" }] }));
    const asked = (id: number) => toServer.filter((line) => line === call(id)).length;
    const make = async (id: number) => {
      relay.fromClient(call(id));
      await expect
        .poll(() => asked(id) + toClient.filter((line) => JSON.parse(line).id === id).length)
        .toBeGreaterThan(0);
      if (asked(id) === 1) relay.fromServer(answer(id, sent));
      await relay.idle();
      return asked(id);
    };
    expect(await make(1)).toBe(1);
    clock.advance(ms - 60_000);
    expect(await make(2)).toBe(0);
    clock.advance(120_000);
    expect(await make(3)).toBe(1);
  },
);

/** What a lenient server might take for a call. */
const NOT_UNDERSTOOD: readonly (readonly [string, string])[] = [
  ["what is not JSON", "{call}"],
  ["a byte order mark", `\uFEFF${call(1)}`],
  ["a call without an id", call(1).replace('"id":1,', "")],
  ["an id that is no scalar", call(1).replace('"id":1', '"id":[1]')],
  ["an id beyond 2^53", call(1).replace('"id":1', '"id":9007199254740993')],
  ["a method that comes twice", call(1).replace('"method"', '"method":"ping","method"')],
  ["a method in another case", call(1).replace('"method"', '"Method"')],
  ["a tool that comes twice", call(1).replace('"name"', '"name":"look","name"')],
  ["params that are a list", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["send"]}'],
  ["a batch with a call", `[${call(1)}]`],
  ["a batch with null and a call", `[null,${call(1)}]`],
  ["a call behind a carriage return", `{"jsonrpc":"2.0","id":7,"method":"ping"}\r${call(1)}`],
  ["NUL in a tool's name", call(1).replace('"send"', '"se\\u0000nd"')],
  ["a tool in another case", call(1).replace('"send"', '"SEND"')],
];

it.each(NOT_UNDERSTOOD)("%s is answered with an error and does not reach the server", async (_, line) => {
  const { relay, toServer, toClient } = relayed({ tools });
  relay.fromClient(JSON.stringify({ jsonrpc: "2.0", id: 0, method: "tools/list" }));
  relay.fromServer(answer(0, { tools: [{ name: "send" }] }));
  relay.fromClient(line);
  await relay.idle();
  expect(toServer.slice(1)).toEqual([]);
  expect(toClient.slice(1).map((one) => JSON.parse(one).error?.message)).toEqual([expect.stringMatching(/^Not run: /)]);
});

it("line ends of other programs inside a message are escaped: no part of it is a line of its own", async () => {
  const { relay, toServer } = relayed({ tools });
  const inner = call(9);
  const nested = `{"jsonrpc":"2.0","id":1,"method":"ping","params":\r${inner}\r}`;
  relay.fromClient(nested);
  const text = JSON.stringify({
    jsonrpc: "2.0",
    id: 2,
    method: "prompts/get",
    params: { name: `\u2028${inner}\u2029\u0085` },
  });
  relay.fromClient(text);
  for (const line of toServer) expect(line).not.toMatch(/[\r\u0085\u2028\u2029]/);
  expect(toServer.map((line) => JSON.parse(line))).toEqual([JSON.parse(nested), JSON.parse(text)]);
});

it("an id that is under way is not taken again: an answer would settle the wrong call", async () => {
  const { relay, toServer, toClient } = relayed({ tools });
  relay.fromClient(call(1));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromClient(call(1).replace("ada", "bob"));
  relay.fromClient('{"jsonrpc":"2.0","id":1,"method":"ping"}');
  expect(toClient.map((line) => JSON.parse(line))).toEqual(
    Array(2).fill({
      jsonrpc: "2.0",
      id: null,
      error: { code: -32_600, message: expect.stringMatching(/the id 1 belongs to/) },
    }),
  );
  relay.fromServer(answer(1, sent));
  await relay.idle();
  expect(toClient.at(-1)).toBe(answer(1, sent));
  // A request that passes has its id too, until it is answered.
  relay.fromClient('{"jsonrpc":"2.0","id":2,"method":"ping"}');
  relay.fromClient(call(2).replace("ada", "bob"));
  expect(toClient.at(-1)).toMatch(/the id 2 belongs to/);
  relay.fromClient('{"jsonrpc":"2.0","id":2,"method":"resources/list"}');
  expect(toClient.at(-1)).toMatch(/the id 2 belongs to/);
  expect(toServer).toHaveLength(2);
  relay.fromServer(answer(2, {}));
  relay.fromClient(call(2).replace("ada", "bob"));
  await expect.poll(() => toServer.length).toBe(3);
  relay.fromServer(answer(2, sent));
  await relay.idle();
});

it("F42: a call that joined one which was cancelled before it was sent is made itself", async () => {
  const { relay, toServer, toClient } = relayed({ tools: { send: { key: ["to"] } } });
  relay.fromClient(call(1));
  relay.fromClient(cancel(1, TIMED_OUT));
  relay.fromClient(call(2));
  await expect.poll(() => [toServer.at(-1), toClient]).toEqual([call(2), []]);
  relay.fromServer(answer(2, sent));
  await relay.idle();
  expect(toClient).toEqual([answer(2, sent)]);
  expect(toServer).not.toContain(call(1));
});

it("the server ends in a call: held for the window, no advice about code; what comes later was not run", async () => {
  const warned: string[] = [];
  const { relay, toServer, toClient } = relayed({}, steeredClock(), (message) => warned.push(message));
  relay.fromClient(call(1));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromServer(answer(JSON.parse(toServer[0] as string).id, { tools: [{ name: "send" }] }));
  await expect.poll(() => toServer).toHaveLength(2);
  relay.serverGone(new Error("the MCP server ended before it answered"));
  await relay.idle();
  expect(toClient[0]).toMatch(/It may have happened all the same .*: the MCP server ended before it answered/);
  expect(toClient[0]).toMatch(/no call for it is run before \d{4}-/);
  expect(warned).toEqual([]);
  relay.fromClient(call(2));
  await relay.idle();
  expect(toClient[1]).toContain("Not run: the MCP server has ended. Nothing was sent.");
});

it("an error answer that nobody classified: the advice is the config's", async () => {
  const warned: string[] = [];
  const { relay, toServer } = relayed({ tools }, steeredClock(), (message) => warned.push(message));
  relay.fromClient(call(1));
  await expect.poll(() => toServer).toHaveLength(1);
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: -32_000, message: "no such address" } }));
  await relay.idle();
  expect(warned).toEqual([expect.stringContaining('proxy\'s config: "tools": { "send": { "errors": "not-done" } }.')]);
  expect(warned[0]).toMatch(/^tool mail\/send: /);
  expect(warned[0]).not.toMatch(/throw|classify/);
});
