/** `limit` of a guarded tool: a call above it is not run, leaves no record, and the model hears when to try again. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { limitOf, readProxyConfig } from "./mcp/config.ts";
import { toolMemory } from "./tool/memory.ts";

interface Mail {
  readonly to: string;
  readonly host?: string;
}

function open(store = memoryStore()) {
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

function gated() {
  let open = () => {};
  const opened = new Promise<void>((done) => {
    open = done;
  });
  return { open, opened };
}

const text = (answer: { readonly kind: string }) => (answer as { readonly text?: string }).text ?? "";
const records = async (nt: ReturnType<typeof open>) =>
  (await nt.store.list({ action: "send_mail", limit: 100 })).items.length;

describe("limit of a guarded tool", () => {
  it("rate: the second call is told when, in plain words; it leaves no record and may be made later", async () => {
    const nt = open();
    const sent: string[] = [];
    const tool = guardTool(
      nt,
      { name: "send_mail", scope: null, key: ["to"], limit: { rate: "1/h" } },
      async ({ to }: Mail) => sent.push(to),
    );
    expect(await tool.answer({ to: "ada" }, undefined)).toMatchObject({ kind: "result" });
    const above = await tool.answer({ to: "bob" }, undefined);
    expect(text(above)).toMatch(
      /^It did not happen: its limit is reached \(one every 1h\)\. You may call send_mail again, but not before \d{4}-.*Z \(in \d+(?:\.\d+)?[smh]\)\. Reference: nt1_/,
    );
    const outcome = (above as { outcome?: { retryAt?: number } }).outcome;
    expect((outcome?.retryAt ?? 0) - Date.now()).toBeGreaterThan(3_500_000);
    await expect(tool({ to: "bob" }, undefined)).rejects.toMatchObject({ code: "FAILED" });
    expect([sent, await records(nt)]).toEqual([["ada"], 1]);
    expect((await nt.prevented()).entries).toMatchObject([{ action: "send_mail", cause: "limit", prevented: 2 }]);
  });

  it("a repeat takes no place: it is answered from the ledger, or joins", async () => {
    const nt = open();
    let runs = 0;
    const tool = guardTool(
      nt,
      { name: "send_mail", scope: null, key: ["to"], limit: { rate: "1/h" } },
      async (_mail: Mail) => ++runs,
    );
    const answers = await Promise.all([1, 2, 3].map(() => tool.answer({ to: "ada" }, undefined)));
    expect(answers.map((one) => one.kind === "result" && one.result)).toEqual([1, 1, 1]);
    expect(await tool.answer({ to: "ada" }, undefined)).toMatchObject({ kind: "result", result: 1 });
  });

  it("concurrency: over two programs on one ledger, by destination, and free again when a call ended", async () => {
    const store = memoryStore();
    const gate = gated();
    let runs = 0;
    const toolOf = (nt: ReturnType<typeof open>) =>
      guardTool(
        nt,
        { name: "send_mail", scope: null, key: ["to"], limit: { concurrency: 1, by: ({ host = "" }: Mail) => host } },
        async ({ to }: Mail) => {
          runs += 1;
          if (to === "ada") await gate.opened;
          if (to === "eve") throw new Error("no such address");
        },
      );
    const [here, there] = [toolOf(open(store)), toolOf(open(store))];
    const slow = here.answer({ to: "ada", host: "a" }, undefined);
    await expect.poll(() => runs).toBe(1);
    expect(text(await there.answer({ to: "bob", host: "a" }, undefined))).toContain("(at most 1 at once)");
    expect(await there.answer({ to: "bob", host: "b" }, undefined)).toMatchObject({ kind: "result" });
    gate.open();
    await slow;
    await expect.poll(async () => (await there.answer({ to: "cleo", host: "a" }, undefined)).kind).toBe("result");
    // A call that fails gives its place back as well.
    await there.answer({ to: "eve", host: "a" }, undefined);
    await expect.poll(async () => (await here.answer({ to: "dan", host: "a" }, undefined)).kind).toBe("result");
  });

  it("a handler that outlives its timeout keeps its place until it ends", async () => {
    const nt = open();
    const gate = gated();
    const tool = guardTool(
      nt,
      { name: "send_mail", scope: null, key: ["to"], timeout: 30, lease: 1_000, limit: { concurrency: 1 } },
      async ({ to }: Mail) => (to === "ada" ? gate.opened : undefined),
    );
    const slow = tool.answer({ to: "ada" }, undefined);
    await expect.poll(async () => (await nt.store.stats()).states.unknown).toBe(1);
    expect((await tool.answer({ to: "bob" }, undefined)).kind).toBe("refused");
    gate.open();
    await slow;
    await expect.poll(async () => (await tool.answer({ to: "bob" }, undefined)).kind).toBe("result");
  });

  it("a check comes first; what it refuses takes no place", async () => {
    const nt = open();
    const tool = guardTool(
      nt,
      {
        name: "send_mail",
        scope: null,
        key: ["to"],
        limit: { rate: "1/h" },
        check: ({ to }: Mail) => {
          if (to === "") throw new Error("nobody");
        },
      },
      async (_mail: Mail) => "sent",
    );
    await expect(tool({ to: "" }, undefined)).rejects.toThrow();
    await expect(tool({ to: "ada" }, undefined)).resolves.toBe("sent");
  });

  it("mode: observe counts it, and runs", async () => {
    const nt = open();
    const tool = guardTool(
      nt,
      { name: "send_mail", scope: null, key: ["to"], mode: "observe", limit: { rate: "1/h" } },
      async ({ to }: Mail) => to,
    );
    expect([await tool({ to: "ada" }, undefined), await tool({ to: "bob" }, undefined)]).toEqual(["ada", "bob"]);
    expect((await nt.prevented()).entries).toMatchObject([{ cause: "limit", observed: 1, prevented: 0 }]);
  });

  it("a ledger that is down is reported as that; whenStoreDown: run goes on", async () => {
    const faults: Faults = { down: true };
    const nt = open(faulty(memoryStore(), faults) as ReturnType<typeof memoryStore>);
    const options = { name: "send_mail", scope: null, key: ["to"], limit: { rate: "1/h" } } as const;
    const tool = guardTool(nt, options, async (_mail: Mail) => "sent");
    expect(text(await tool.answer({ to: "ada" }, undefined))).toContain("it cannot be checked now");
    const running = guardTool(
      nt,
      { ...options, name: "push", whenStoreDown: "run" } as never,
      async (_mail: Mail) => "sent",
    );
    expect(await running.answer({ to: "ada" } as never, undefined)).toMatchObject({ kind: "result", result: "sent" });
  });

  it("says at definition what is wrong with it, in code and in the proxy's config", () => {
    const nt = open();
    const guard = (limit: object) => () =>
      guardTool(nt, { name: "x", scope: null, key: ["to"], limit }, async (_mail: Mail) => 1);
    expect(guard({})).toThrow(/limit says neither concurrency nor rate/);
    expect(guard({ rate: "often" })).toThrow(/"often" is not a rate/);
    expect(guard({ rate: "1/s", per: "host" })).toThrow(/limit has no option "per"/);
    const config = (limit: unknown) => () => readProxyConfig({ tools: { send: { limit } } }, "tools.json");
    expect(config({ rate: "often" })).toThrow(/tools.json: tools.send: limit.rate: "often" is not a rate/);
    expect(config({ rate: "1/s", by: 5 })).toThrow(/tools.send.limit.by takes a text/);
    expect(config([])).toThrow(/tools.send.limit must be an object/);
    expect(config({ rate: "1/s", by: "channel" })).not.toThrow();
    expect(limitOf({ rate: "1/s", by: "channel" }).by?.({ channel: 7 })).toBe("7");
    expect(() => toolMemory({ scope: "s", tools: { x: { limit: { rate: "1/s" } } } })).toThrow(/kept in a ledger/);
  });

  it("a destination that cannot be read is refused, and nothing is run", async () => {
    const nt = open();
    let runs = 0;
    const tool = guardTool(
      nt,
      { name: "send_mail", scope: null, key: ["to"], limit: { rate: "1/s", by: ({ host }: Mail) => host as string } },
      async (_mail: Mail) => ++runs,
    );
    await expect(tool({ to: "ada" }, undefined)).rejects.toThrow(/limit.by named no destination/);
    expect(runs).toBe(0);
  });

  it("toolMemory on a ledger: the destination is made from the tool's own arguments", async () => {
    const nt = open();
    const memory = toolMemory({
      nt,
      scope: "s1",
      tools: { send: { key: ["to"], limit: { rate: "1/h", by: ({ host }: Mail) => host as string } } },
    });
    const call = async (to: string, host: string) => (await memory.call("send", { to, host }, async () => to)).kind;
    expect([await call("ada", "a"), await call("bob", "a"), await call("bob", "b")]).toEqual([
      "result",
      "refused",
      "result",
    ]);
  });
});
