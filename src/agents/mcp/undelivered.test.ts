/** The proxy's default: an identical call is a repeat only while the first one's answer may not have arrived. */
import { expect, it, onTestFinished } from "vitest";
import { steeredClock } from "../../../test/support/each-store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { type ProxyConfig, readProxyConfig, whatHolds } from "./config.ts";
import { McpGuard } from "./guard.ts";
import { McpRelay } from "./stdio/relay.ts";

const store = () => {
  const clock = steeredClock();
  return Object.assign(memoryStore({ clock }), { close: async () => {}, advance: clock.advance });
};

/** A proxy between a client that reads, and a server that counts its calls. */
function proxy({ config = {}, on = store() }: { config?: ProxyConfig; on?: ReturnType<typeof store> } = {}) {
  const nt = nevertwice({ store: on, sweep: false });
  onTestFinished(() => nt.close());
  const toClient: string[] = [];
  const calls: string[] = [];
  let reads = true;
  let answers = true;
  const guard = new McpGuard({ nt, config, server: "lamp", identity: "lamp" });
  guard.learn([{ name: "toggle" }, { name: "look", annotations: { readOnlyHint: true } }, { name: "blink" }]);
  const relay: McpRelay = new McpRelay({
    guard,
    graceMs: 20,
    toClient: (line, written) => {
      toClient.push(line);
      written?.(reads ? null : new Error("EPIPE"));
    },
    toServer: (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method !== "tools/call") return;
      calls.push(params.name);
      const text = `${params.name} ${calls.length}`;
      if (answers)
        relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } }));
    },
  });
  let id = 0;
  const send = (name: string, args: object = {}) => {
    id += 1;
    relay.fromClient(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } }));
    return id;
  };
  const call = async (name: string, args: object = {}): Promise<string> => {
    const mine = send(name, args);
    await relay.idle();
    const answer = toClient.map((line) => JSON.parse(line)).find((one) => one.id === mine);
    return (answer?.result.content as { text: string }[] | undefined)?.map(({ text }) => text).join(" | ") ?? "none";
  };
  return {
    ...{ nt, relay, calls, call, send, toClient },
    cancel: (requestId: number, reason?: string) =>
      relay.fromClient(
        JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } }),
      ),
    deaf: () => {
      reads = false;
    },
    silent: (is = true) => {
      answers = !is;
    },
  };
}

it("once its answer has arrived the same call is made again, with its own answer", async () => {
  const { call, calls } = proxy();
  for (const n of [1, 2, 3]) expect(await call("toggle")).toBe(`toggle ${n}`);
  expect(calls).toHaveLength(3);
});

it("an answer that was cancelled as it came is given once more, and then the call is made again", async () => {
  const { call, calls, cancel, send, relay } = proxy();
  const first = send("toggle");
  await relay.idle();
  cancel(first);
  expect(await call("toggle")).toMatch(/^Already done at .* \| toggle 1$/);
  expect(await call("toggle")).toBe("toggle 2");
  expect(calls).toHaveLength(2);
});

it.each([
  ["is told to stop", {}],
  ["goes on", { onTimeout: "finish" }],
] as const)(
  "a client gives up, its call %s, and the answer comes before the next message: it is the next call's",
  async (_, config) => {
    const { call, calls, cancel, send, relay, silent } = proxy({ config });
    silent();
    const first = send("toggle");
    await expect.poll(() => calls).toHaveLength(1);
    cancel(first, "McpError: MCP error -32001: Request timed out");
    const result = { content: [{ type: "text", text: "on" }] };
    relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: first, result }));
    await relay.idle();
    relay.fromClient(JSON.stringify({ jsonrpc: "2.0", method: "notifications/roots/list_changed" }));
    silent(false);
    expect(await call("toggle")).toMatch(/^Already done at .* \| on$/);
    expect(await call("toggle")).toBe("toggle 2");
  },
);

it("an answer that could not be written is given to the next client, and the server's errors alike", async () => {
  const on = store();
  const gone = proxy({ on });
  gone.deaf();
  await gone.call("toggle");
  await gone.nt.close();
  const next = proxy({ on });
  expect(await next.call("toggle")).toMatch(/Already done at .* \| toggle 1/);
  expect(await next.call("toggle")).toBe("toggle 1");
  expect(next.calls).toHaveLength(1);
});

it.each([
  [true, "toggle 1"],
  [false, /Already done at/],
])("a client that ends its input, and still reads: %s", async (reads, again) => {
  const on = store();
  const first = proxy({ on });
  await first.call("toggle");
  await first.relay.clientEnds(async () => reads);
  await first.nt.close();
  expect(await proxy({ on }).call("toggle")).toMatch(again);
});

it("a proxy that was killed leaves the answer to the next one", async () => {
  const on = store();
  await proxy({ on }).call("toggle");
  expect(await proxy({ on }).call("toggle")).toMatch(/Already done at .* \| toggle 1/);
});

it("two at once are one call, and both get its answer", async () => {
  const { calls, send, relay, silent, toClient } = proxy();
  silent();
  const [one, two] = [send("toggle"), send("toggle")];
  await expect.poll(() => calls).toHaveLength(1);
  const result = { content: [{ type: "text", text: "on" }] };
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: one, result }));
  await relay.idle();
  const answers = toClient.map((line) => JSON.parse(line));
  expect(answers.map(({ id, result: { content } }) => [id, content.at(-1)])).toEqual(
    [one, two].map((id) => [id, { type: "text", text: "on" }]),
  );
  expect(calls).toHaveLength(1);
});

it("a call that is taken back before it was sent is not made, and one that joined it makes its own", async () => {
  const { call, cancel, send, relay, calls } = proxy();
  const [first, second] = [send("toggle"), call("toggle")];
  cancel(first);
  expect(await second).toBe("toggle 1");
  await relay.idle();
  expect(calls).toHaveLength(1);
});

it("a client that gives up without a word, and calls again while it runs: one call, one answer, then a new one", async () => {
  const config = { tools: { toggle: { guard: "undelivered", wait: 0 } } } as const;
  const { calls, call, send, relay, silent } = proxy({ config });
  silent();
  const first = send("toggle");
  await expect.poll(() => calls).toHaveLength(1);
  send("toggle");
  await expect.poll(() => calls).toHaveLength(1);
  const result = { content: [{ type: "text", text: "on" }] };
  await new Promise((soon) => setTimeout(soon, 50));
  relay.fromServer(JSON.stringify({ jsonrpc: "2.0", id: first, result }));
  await relay.idle();
  silent(false);
  // Its second call was put off: the answer is still owed to it.
  expect(await call("toggle")).toMatch(/Already done at .* \| on/);
  expect(await call("toggle")).toBe("toggle 2");
});

it("a doubt is held for the window, and then the next call is made", async () => {
  const on = store();
  const { call, cancel, send, relay, calls, silent } = proxy({ on, config: { window: "10m" } });
  silent();
  const first = send("toggle");
  await expect.poll(() => calls).toHaveLength(1);
  cancel(first);
  await relay.idle();
  silent(false);
  expect(await call("toggle")).toMatch(/It may have happened all the same/);
  on.advance(9 * 60_000);
  expect(await call("toggle")).toMatch(/It may have happened all the same/);
  on.advance(2 * 60_000);
  expect(await call("toggle")).toBe("toggle 2");
});

const kim = { by: "kim", reason: "she lost it" };

async function grant({ nt }: ReturnType<typeof proxy>): Promise<void> {
  const { items } = await nt.store.list({ action: "lamp/toggle", limit: 10 });
  expect(items).toHaveLength(1);
  await nt.grantOnceMore({ key: items[0]?.record.key as string }, kim);
}

const undelivered: ProxyConfig = { tools: { toggle: { guard: "undelivered", key: ["id"] } } };

it.each([
  ["an answer that has arrived", {}, false],
  ["an answer that was lost", {}, true],
  ["a tool that a config names", undelivered, false],
  ["a tool that a config names, an answer that was lost", undelivered, true],
] as const)("a grant for one more run is for one, and the guard goes on after it: %s", async (_, config, lost) => {
  const on = store();
  const one = proxy({ config, on });
  const first = one.send("toggle", { id: 1 });
  await one.relay.idle();
  if (lost) one.cancel(first);
  await grant(one);
  expect(await one.call("toggle", { id: 1 })).toBe("toggle 2");
  // Two at once are one call.
  const both = Promise.all([one.call("toggle", { id: 1 }), one.call("toggle", { id: 1 })]);
  expect((await both).map((text) => text.split(" | ").at(-1))).toEqual(["toggle 3", "toggle 3"]);
  // Cancelled as its answer came.
  const third = one.send("toggle", { id: 1 });
  await one.relay.idle();
  one.cancel(third);
  expect(await one.call("toggle", { id: 1 })).toMatch(/^Already done at .* \| toggle 4$/);
  // The proxy is killed before its answer has arrived.
  expect(await one.call("toggle", { id: 1 })).toBe("toggle 5");
  const two = proxy({ config, on });
  expect(await two.call("toggle", { id: 1 })).toMatch(/^Already done at .* \| toggle 5$/);
  expect(await two.call("toggle", { id: 1 })).toBe("toggle 1");
});

it("a grant is used once by identical calls at once, of several proxies", async () => {
  const on = store();
  const first = proxy({ on });
  await first.call("toggle");
  await grant(first);
  const [one, two] = [proxy({ on }), proxy({ on })];
  const all = await Promise.all([one, two].flatMap(({ call }) => [call("toggle"), call("toggle")]));
  expect(new Set(all.map((text) => text.split(" | ").at(-1)))).toEqual(new Set(["toggle 1"]));
  expect([...one.calls, ...two.calls]).toHaveLength(1);
});

it("an answer that arrives after another caller has used a grant ends no guard of that run", async () => {
  const on = store();
  const [one, two] = [proxy({ on }), proxy({ on })];
  await one.call("toggle");
  await grant(one);
  expect(await two.call("toggle")).toBe("toggle 1");
  // Only now the first client is heard of.
  await one.relay.clientEnds(async () => true);
  await one.nt.close();
  expect(await proxy({ on }).call("toggle")).toMatch(/^Already done at .* \| toggle 1$/);
});

it("under mode: observe, calls whose answers arrived are no duplicates that would have been prevented", async () => {
  const { call, cancel, send, relay, nt } = proxy({ config: { mode: "observe" } });
  for (const n of [1, 2, 3]) expect(await call("toggle")).toBe(`toggle ${n}`);
  expect((await nt.prevented()).entries).toEqual([]);
  const lost = send("blink");
  await relay.idle();
  cancel(lost);
  await call("blink");
  expect((await nt.prevented()).entries).toHaveLength(1);
});

it("under mode: observe, calls at once whose answers arrived leave nothing to answer a later one with", async () => {
  const on = store();
  for (const mode of ["observe", "guard"] as const) {
    const observing = proxy({ config: { mode: "observe" }, on });
    await Promise.all([observing.call("toggle"), observing.call("toggle")]);
    expect(observing.calls).toHaveLength(2);
    const { observed } = await observing.nt.prevented();
    await observing.relay.clientEnds(async () => true);
    await observing.nt.close();
    const next = proxy({ config: { mode }, on });
    expect(await next.call("toggle")).toBe("toggle 1");
    // Of two at once the second counts, and no later one.
    expect(await next.nt.prevented()).toMatchObject({ prevented: 0, observed });
    await next.relay.clientEnds(async () => true);
    await next.nt.close();
  }
});

it("`only` guards what it names and nothing else; a tool that the config names is guarded by its key", async () => {
  const config: ProxyConfig = { only: ["blink", "look"], tools: { blink: {} } };
  const { call, calls } = proxy({ config });
  await call("blink");
  expect(await call("blink")).toMatch(/Already done/);
  await call("toggle");
  await call("toggle");
  expect(calls).toEqual(["blink", "toggle", "toggle"]);
});

it.each([
  [{ guard: "often" }, /guard is "often"; it takes "undelivered" or "intent"/],
  [{ tools: { a: { guard: "no" } } }, /tools\.a\.guard is "no"/],
  [{ only: "a" }, /only takes a list of names/],
  [{ only: ["b"], tools: { a: {} } }, /only does not name it/],
  [{ only: ["a"], tools: { a: { readOnly: true } } }, /only names "a"/],
  [{ scope: null, tools: { pay: { guard: "undelivered", effect: "payment" } } }, /Leave guard out/],
])("refuses %j", (config, message) => {
  expect(() => readProxyConfig(config, "f")).toThrow(message);
});

it("says at the start what holds", () => {
  expect(whatHolds({})).toMatch(
    /^an identical call is a repeat until .* arrived, for 15m at most; tools that the server declares/,
  );
  expect(whatHolds({ guard: "intent", window: "1h" })).toMatch(/^identical calls are made once within 1h; /);
  const tools = { a: {}, b: { readOnly: true }, c: { guard: "undelivered" } } as const;
  expect(whatHolds({ tools })).toContain("; made once per key, as the config says: a; ");
  expect(whatHolds({ only: ["a"] })).toMatch(/only these tools are guarded: a$/);
});

it("repeats: a call whose answer was lost, also by a cancellation that crossed it, is made in its own place", async () => {
  const { call, cancel, calls } = proxy({ config: { tools: { toggle: { repeats: 2 } } } });
  expect(await call("toggle")).toBe("toggle 1");
  cancel(1);
  expect(await call("toggle")).toMatch(/^Already done at .* \| toggle 1$/);
  expect(await call("toggle")).toBe("toggle 2");
  cancel(3);
  for (let time = 0; time < 2; time += 1) expect(await call("toggle")).toMatch(/^Already done at .* \| toggle 2$/);
  expect(calls).toHaveLength(2);
});
