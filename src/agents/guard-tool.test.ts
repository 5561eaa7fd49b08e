import { describe, expect, it, onTestFinished } from "vitest";
import { startProvider } from "../../test/support/provider.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { isNevertwiceError, notSent, rejected } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { queuedTool } from "./queued-tool.ts";
import { statusTool } from "./status-tool.ts";

interface Mail {
  readonly to: string;
  readonly amount?: number;
  readonly body: string;
}

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

const mail: Mail = { to: "ada", amount: 5, body: "Hello" };
const options = {
  name: "send_mail",
  key: ["to"],
  free: ["body"],
  scope: null,
  retry: { attempts: 2, backoff: 1 },
} as const;

describe("guardTool", () => {
  it("calls that wait for one another each get an object of their own: what is done to one does not reach the others", async () => {
    const tool = guardTool(open(), options, async ({ to }: Mail) => ({ id: to }));
    const [ran, joined, also] = await Promise.all([mail, mail, mail].map((one) => tool(one, undefined)));
    Object.assign(joined as object, { note: "seen" });
    expect([ran, also]).toEqual([{ id: "ada" }, { id: "ada" }]);
  });

  it("A1 A4: a repeat returns the first result, and the model is told when it was done", async () => {
    const provider = await startProvider({ honoursKeys: false });
    const tool = guardTool(open(), options, (input: Mail) => provider.send(input, ""));
    expect(await tool.answer(mail, undefined)).toEqual({ kind: "result", result: { id: "msg_1" }, note: null });
    const again = await tool.answer(mail, undefined);
    expect(again).toMatchObject({ kind: "result", result: { id: "msg_1" } });
    expect(again.kind === "result" && again.note).toMatch(
      /^Already done at \d{4}-.*Z; this is that result\. send_mail was not run again\.$/,
    );
    expect(provider.effects).toHaveLength(1);
  });

  it("A4: a store that is down is told in words for the model; what operators need is behind them", async () => {
    const faults: Faults = {};
    const nt = nevertwice({ store: faulty(memoryStore(), faults), sweep: false });
    onTestFinished(() => nt.close());
    let runs = 0;
    const tool = guardTool(nt, { ...options, name: "pay_invoice" }, async (_input: Mail) => ++runs);
    faults.down = true;
    const text =
      "pay_invoice was not run: it cannot be checked now whether this was done before. Nothing was sent. Tell the user; do not try another way.";
    expect(await tool.answer(mail, undefined)).toMatchObject({
      kind: "refused",
      text,
      outcome: null,
      error: { code: "STORE_UNAVAILABLE", message: expect.stringContaining("connection to the store lost") },
    });
    await expect(tool(mail, undefined)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: text,
      cause: { message: expect.stringContaining("connection to the store lost") },
    });
    expect(runs).toBe(0);
    const later = queuedTool(nt.action("later", { key: ["to"], run: async (_input: Mail) => 1 }), { scope: null });
    const { key: reference, ...unrecorded } = await later.answer(mail, undefined);
    expect(unrecorded).toMatchObject({ created: false, state: "unavailable" });
    expect(await later(mail, undefined)).toMatch(
      /^It is not known whether later is scheduled: it cannot be checked now/,
    );
    expect(await statusTool(nt).execute({ reference })).toMatch(/^No answer: it cannot be checked now\./);
    faults.down = false;
    const now = await tool.answer(mail, undefined);
    expect(now.kind).toBe(runs === 1 ? "result" : "refused");
  });

  it("A1: a tool that is guarded twice is guarded once, and does not wait for itself", async () => {
    let runs = 0;
    const nt = open();
    const inner = guardTool(nt, options, async (_input: Mail) => ++runs);
    const outer = guardTool(nt, options, (input: Mail) => inner(input, undefined));
    expect(await outer.answer(mail, undefined)).toEqual({ kind: "result", result: 1, note: null });
    expect(await outer.answer(mail, undefined)).toMatchObject({ result: 1, note: expect.stringMatching(/^Already/) });
    expect(await inner.answer(mail, undefined)).toMatchObject({ result: 1, note: expect.stringMatching(/^Already/) });
  });

  it("K3: a reworded free text is the same intent, and the model is told that the first text stands", async () => {
    let runs = 0;
    const tool = guardTool(open(), options, async (_input: Mail) => ++runs);
    await tool(mail, undefined);
    const again = await tool.answer({ ...mail, body: "Good day" }, undefined);
    expect(again.kind === "result" && again.note).toContain("Your body differs from what was sent then");
    expect(runs).toBe(1);
  });

  it("F2: a changed amount is a conflict that reaches the model as a clear refusal", async () => {
    let runs = 0;
    const tool = guardTool(open(), options, async (_input: Mail) => ++runs);
    await tool(mail, undefined);
    const refused = await tool.answer({ ...mail, amount: 6 }, undefined);
    expect(refused).toMatchObject({ kind: "refused", outcome: { status: "conflict", differs: ["amount"] } });
    expect(refused.kind === "refused" && refused.text).toMatch(
      /^Refused, and nothing was done: send_mail was already called for this with another amount\./,
    );
    const thrown = await tool({ ...mail, amount: 6 }, undefined).catch((error) => error);
    expect(isNevertwiceError(thrown) && thrown.code).toBe("KEY_CONFLICT");
    expect(runs).toBe(1);
  });

  it("F21: an error nobody classified is doubt: told at once, and never run again", async () => {
    const provider = await startProvider({ honoursKeys: false });
    provider.plan("drop-after-effect");
    const tool = guardTool(open(), { ...options, statusTool: "nevertwice_status" }, (input: Mail) =>
      provider.send(input, ""),
    );
    const first = await tool.answer(mail, undefined);
    expect(first.kind === "refused" && first.text).toMatch(
      /^send_mail failed: fetch failed\. It may have happened all the same \(2.*\), and it will not be run again/,
    );
    const second = await tool.answer(mail, undefined);
    expect(second.kind === "refused" && second.text).toMatch(/nevertwice_status \{"reference":"nt1_[0-9a-v]{52}"\}/);
    expect(provider.effects).toHaveLength(1);
  });

  it("O4: what surely did not happen is thrown as it came, and may be called again", async () => {
    let runs = 0;
    const cause = new Error("no quota");
    const tool = guardTool(open(), { ...options, retry: { attempts: 1 } }, async (_input: Mail) => {
      runs += 1;
      if (runs === 1) throw notSent(cause);
      return runs;
    });
    await expect(tool.answer(mail, undefined)).rejects.toBe(cause);
    expect(await tool(mail, undefined)).toBe(2);
  });

  it("rejected for good: a repeat is told so and nothing runs", async () => {
    let runs = 0;
    const tool = guardTool(open(), options, async (_input: Mail) => {
      runs += 1;
      throw rejected(new Error("blocked address"));
    });
    await expect(tool.answer(mail, undefined)).rejects.toThrow("blocked address");
    const again = await tool.answer(mail, undefined);
    expect(again.kind === "refused" && again.text).toContain(
      "Refused for good, and it did not happen: blocked address",
    );
    expect(runs).toBe(1);
  });

  it("O3: a second call while the first runs joins it; past its wait it is told that it is in progress", async () => {
    let finish = (_value: number) => {};
    const tool = guardTool(
      open(),
      { ...options, wait: 1 },
      (_input: Mail) =>
        new Promise<number>((done) => {
          finish = done;
        }),
    );
    const first = tool.answer(mail, undefined);
    await new Promise((soon) => setTimeout(soon, 20));
    const second = await tool.answer(mail, undefined);
    expect(second.kind === "refused" && second.text).toMatch(/^In progress: send_mail has been running for this since/);
    finish(7);
    expect(await first).toEqual({ kind: "result", result: 7, note: null });
  });

  it("K2: another scope is another intent; the scope comes from what the framework hands over", async () => {
    let runs = 0;
    const tool = guardTool(
      open(),
      { ...options, scope: (extra: { thread: string }) => extra.thread },
      async (_input: Mail) => ++runs,
    );
    expect(await tool(mail, { thread: "a" })).toBe(1);
    expect(await tool(mail, { thread: "b" })).toBe(2);
    expect(await tool(mail, { thread: "a" })).toBe(1);
  });

  it("read-only tools pass through", async () => {
    let runs = 0;
    const tool = guardTool(open(), { name: "list", scope: null, readOnly: true }, async (_input: object) => ++runs);
    expect([await tool({}, undefined), await tool({}, undefined)]).toEqual([1, 2]);
  });

  it("control flow is passed through, never stored, and never tried again by itself", async () => {
    const nt = open();
    let asked = 0;
    class Interrupt extends Error {
      readonly is_bubble_up = true;
    }
    const interrupt = new Interrupt("approve?");
    const tool = guardTool(nt, options, async (_input: Mail) => {
      asked += 1;
      if (asked === 1) throw interrupt;
      if (asked === 2) return { resultType: "input_required" };
      return { id: "msg_1" };
    });
    await expect(tool(mail, undefined)).rejects.toBe(interrupt);
    expect(await tool(mail, undefined)).toEqual({ resultType: "input_required" });
    expect(await tool(mail, undefined)).toEqual({ id: "msg_1" });
    expect(await tool(mail, undefined)).toEqual({ id: "msg_1" });
    expect(asked).toBe(3);
  });

  it("an order to the graph goes through once; a repeat is told that it was done", async () => {
    const command = { lg_name: "Command", goto: "next" };
    const tool = guardTool(open(), options, async (_input: Mail) => command);
    expect(await tool(mail, undefined)).toBe(command);
    const again = await tool.answer(mail, undefined);
    expect(again.kind === "refused" && again.text).toMatch(
      /^Already done at .*its result was not kept \(it was an order to the graph\)/,
    );
  });

  it("a handler that outlives its timeout: others hear of the doubt, its caller gets the answer, the ledger the evidence", async () => {
    const nt = open();
    let finish = (_value: string) => {};
    let begun = 0;
    const handler = (_input: Mail) => {
      begun += 1;
      return new Promise<string>((done) => {
        finish = done;
      });
    };
    const tool = guardTool(nt, { ...options, timeout: 40, lease: 60, wait: 0 }, handler);
    const settled = new Promise<void>((heard) => nt.on(({ type }) => type === "settled" && heard()));
    const doubtful = new Promise<void>((heard) => nt.on(({ type }) => type === "unknown" && heard()));
    const first = tool.answer(mail, undefined);
    await doubtful;
    const other = await tool.answer(mail, undefined);
    expect(other).toMatchObject({ kind: "refused", outcome: { status: "unknown" } });
    finish("late");
    expect(await first).toEqual({ kind: "result", result: "late", note: null });
    await settled;
    expect(await tool(mail, undefined)).toBe("late");
    expect(begun).toBe(1);
  });

  it("a result that says error: doubt unless told otherwise, and the tool's own words reach the model", async () => {
    const nt = open();
    const codec = { isError: (r: { isError: boolean }) => r.isError, said: () => "quota exceeded" };
    const failing = { isError: true };
    const runs = { doubt: 0, done: 0, answer: 0 };
    const fail = (which: keyof typeof runs) => {
      runs[which] += 1;
      return failing;
    };
    const doubt = guardTool(nt, { ...options, action: "a" }, async (_i: Mail) => fail("doubt"), codec);
    const notDone = guardTool(
      nt,
      { ...options, action: "b", errors: "not-done" },
      async (_i: Mail) => fail("done"),
      codec,
    );
    const asAnswer = guardTool(
      nt,
      { ...options, action: "c", errors: () => "answer" },
      async (_i: Mail) => fail("answer"),
      codec,
    );
    const first = await doubt.answer(mail, undefined);
    expect(first).toMatchObject({ kind: "refused", result: failing, outcome: { status: "unknown" } });
    expect(first.kind === "refused" && first.text).toContain("send_mail failed: quota exceeded.");
    await doubt.answer(mail, undefined);
    for (const tool of [notDone, notDone, asAnswer, asAnswer]) expect(await tool(mail, undefined)).toEqual(failing);
    expect(runs).toEqual({ doubt: 1, done: 2, answer: 1 });
  });

  it("a tool built anew for each session shares its action, and each call runs its own handler", async () => {
    const nt = open();
    const build = (session: string) =>
      guardTool(nt, { name: "note", key: (i: { id: number }) => [i.id], scope: session }, async () => session);
    expect(await build("s1")({ id: 1 }, undefined)).toBe("s1");
    expect(await build("s2")({ id: 1 }, undefined)).toBe("s2");
    expect(await build("s1")({ id: 1 }, undefined)).toBe("s1");
    expect(() => guardTool(nt, { name: "note", scope: null, keep: "1h" }, async () => "x")).toThrow(
      /guarded already with other options/,
    );
  });

  it("a tool that calls a guarded tool of its own is not taken for it", async () => {
    const nt = open();
    const inner = guardTool(nt, { name: "inner", scope: null }, async (i: { id: number }) => `inner ${i.id}`);
    const outer = guardTool(
      nt,
      { name: "outer", scope: null },
      async (i: { id: number }) => `outer ${await inner(i, undefined)}`,
    );
    expect(await outer({ id: 1 }, undefined)).toBe("outer inner 1");
  });

  it("a tool without arguments is one intent in its scope", async () => {
    let runs = 0;
    const tool = guardTool(
      open(),
      { name: "refresh", scope: null, free: ["why"] },
      async (_i: { why?: string }) => ++runs,
    );
    expect([await tool({}, undefined), await tool({}, undefined)]).toEqual([1, 1]);
    await expect(tool({ why: "asked" }, undefined)).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(runs).toBe(1);
  });

  it("says what is wrong with an option", () => {
    const nt = open();
    expect(() => guardTool(nt, { name: "x", scope: null, keys: ["a"] } as never, async () => 1)).toThrow(
      /tool "x": there is no option "keys". The options are: keep/,
    );
    expect(() => guardTool(nt, { name: " ", scope: null }, async () => 1)).toThrow(/name is missing/);
    expect(() => guardTool(nt, { name: "x", scope: null, errors: "maybe" as never }, async () => 1)).toThrow(
      /errors is "maybe"; it takes "doubt", "not-done", "answer"/,
    );
    expect(() => guardTool(nt, { name: "x", scope: null }, undefined as never)).toThrow(
      /the third argument must be the tool's handler/,
    );
    expect(() => guardTool({} as never, { name: "x" }, async () => 1)).toThrow(
      /the first argument must be what nevertwice\(\) returned/,
    );
    expect(() => guardTool(nt, { name: "x", scope: null, readOnly: "yes" as never }, async () => 1)).toThrow(
      /readOnly is "yes"; it takes true or false/,
    );
    expect(() => guardTool(nt, { name: "x", scope: 4 as never }, async () => 1)).toThrow(
      /scope is 4; it takes a text, or a function of the call/,
    );
    expect(() => guardTool(nt, { name: "x", scope: null, statusTool: true as never }, async () => 1)).toThrow(
      /statusTool is true; it takes a text: the name the status tool has/,
    );
  });

  it("what an action refuses is refused where the tool is guarded, not at its first call", () => {
    const nt = open();
    const guard = (name: string, options: object) => () =>
      guardTool(nt, { name, scope: null, ...options }, async () => 1);
    expect(guard("a", { keep: "1 fortnight" })).toThrow(/keep: "1 fortnight" is not a duration/);
    expect(guard("b", { doubt: "hodl" })).toThrow(/doubt is "hodl"; it takes "hold", "retry"/);
    expect(guard("c", { key: ["to"] })).not.toThrow();
    expect(guard("c", { key: ["from"] })).toThrow(/"c" is guarded already with other options\. .*another `action`/);
    nt.action("d", { key: ["to"], run: async (_: { to: string }) => 1 });
    expect(guard("d", { key: ["to"] })).toThrow(/action "d" is defined twice/);
  });

  it("K2: a scope that is not there is refused, since one conversation would get another's result", async () => {
    let runs = 0;
    const scope = (call: { thread?: string | null }) => call.thread;
    const tool = guardTool(open(), { name: "send", scope }, async (_: { to: string }) => ++runs);
    await expect(tool({ to: "ada" }, {})).rejects.toMatchObject({
      code: "INVALID_KEY",
      message: expect.stringMatching(/tool "send": scope gave undefined for this call\. Nothing was run/),
    });
    expect(runs).toBe(0);
    expect(await tool({ to: "ada" }, { thread: null })).toBe(1);
  });
});
