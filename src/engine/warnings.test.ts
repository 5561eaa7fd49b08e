import { randomBytes, randomUUID } from "node:crypto";
import { keepFor, nevertwice, type } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

interface Warning {
  readonly code: string;
  readonly action: string;
  readonly message: string;
}

// A clock that stands: how long ago a part of a key was made decides, and a machine may pause between any two lines.
const NOW = Date.UTC(2026, 0, 15, 9, 35, 17, 123);
const standing = () => memoryStore({ clock: { instant: () => ({ now: NOW, steady: 0, epoch: "standing" }) } });

function listening() {
  const warned: Warning[] = [];
  const nt = nevertwice({ store: standing(), sweep: false, onWarning: (warning) => warned.push(warning) });
  onTestFinished(() => nt.close());
  return { nt, warned, codes: () => warned.map((one) => one.code) };
}
const run = async () => 1;

describe("warnings", () => {
  it("K5: a key made at call time is noticed, once per action", async () => {
    const { nt, warned } = listening();
    const send = nt.action("send", { key: (i: { to: string }) => [i.to, randomUUID()], run });
    for (let i = 0; i < 5; i += 1) await send({ to: "a" });
    expect(warned).toHaveLength(1);
    expect(warned[0]).toMatchObject({ code: "CALL_TIME_KEY", action: "send" });
  });

  it("K5: so are a clock, a tool-call id and a retry count in the input", async () => {
    const { nt, codes } = listening();
    await nt.action("a", { input: type<Record<string, unknown>>(), key: ["at"], run })({ at: NOW - 12 });
    await nt.action("b", { input: type<Record<string, unknown>>(), key: ["call"], run })({
      call: "toolu_01A09q90qw90lq917835lq9",
    });
    await nt.action("c", { input: type<Record<string, unknown>>(), key: ["to", "attempt"], run })({
      to: "x",
      attempt: 2,
    });
    expect(codes()).toEqual(["CALL_TIME_KEY", "CALL_TIME_KEY", "CALL_TIME_KEY"]);
  });

  it("K5: an id that was handed in is not one, in an action or in once()", async () => {
    const { nt, warned } = listening();
    const userId = randomUUID();
    await nt.action("a", { input: type<Record<string, unknown>>(), key: ["userId"], run })({ userId });
    await nt.action("b", { key: (i: { userId: string }) => [i.userId], run })({ userId });
    await nt.once("welcome", [userId], run);
    expect(warned).toEqual([]);
  });

  it("K5: without onWarning it reaches the process's warnings", async () => {
    const said = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => said.mockRestore());
    const nt = nevertwice({ store: standing(), sweep: false });
    await nt.action("send", { input: type<Record<string, unknown>>(), key: ["at"], run })({ at: NOW - 12 });
    expect(said).toHaveBeenCalledWith(expect.stringContaining("action send"), {
      type: "NevertwiceWarning",
      code: "NEVERTWICE_CALL_TIME_KEY",
    });
    await nt.close();
  });

  it("F43: keep shorter than the retries may take is told when the action is made", () => {
    const { nt, codes } = listening();
    nt.action("short", { keep: "1h", doubt: { resendWithin: "24h" }, run });
    nt.action("long", { keep: "30d", doubt: { resendWithin: "24h" }, run });
    expect(codes()).toEqual(["KEEP_TOO_SHORT"]);
  });

  it("O8: money that is guarded for a day only is told", () => {
    const { nt, warned } = listening();
    nt.action("charge_card", { keep: "1d", run });
    nt.action("refund", { keep: keepFor.payment, run });
    nt.action("digest", { keep: keepFor.frequent, run });
    nt.action("tick", { keep: keepFor.scheduled("1h"), retry: { attempts: 1 }, run });
    expect(warned.map((one) => [one.code, one.action])).toEqual([["KEEP_SHORT_FOR_MONEY", "charge_card"]]);
  });

  it("O9: a run that blocks the event loop for a third of its lease is warned about, once, with the lease it needs", async () => {
    const { nt, warned } = listening();
    const think = nt.action("think", {
      lease: 90,
      run: async ({ ms }: { ms: number }) => {
        const end = performance.now() + ms;
        while (performance.now() < end);
      },
    });
    await think({ ms: 0 });
    expect(warned).toEqual([]);
    await think({ ms: 80 });
    await think({ ms: 85 });
    expect(warned).toMatchObject([{ code: "LEASE_SHORT", action: "think" }]);
    expect(warned[0]?.message).toMatch(
      /^action think: an attempt could send no heartbeat for \d+ms, because the event loop was blocked, and its lease is 90ms\. .* Give lease: "1s" \(three times as long\) or more/,
    );
  });

  it("O9: a run that takes long without blocking is not: its lease is kept", async () => {
    const { nt, warned } = listening();
    const wait = nt.action("wait", {
      lease: 600,
      timeout: 600,
      run: (_: { id: number }) => new Promise<void>((done) => setTimeout(done, 450)),
    });
    await wait({ id: 1 });
    expect(warned).toEqual([]);
  });

  it("O13: payments on a store that forgets are warned about at their first use, other effects are not", async () => {
    const { nt, warned } = listening();
    const pay = nt.action("pay", { effect: "payment", key: ["id"], run: async (_: { id: number }) => 1 });
    await nt.action("mail", { effect: "mail", key: ["id"], run: async (_: { id: number }) => 1 })({ id: 1 });
    expect(warned).toEqual([]);
    await pay({ id: 1 });
    await pay({ id: 2 });
    expect(warned).toMatchObject([{ code: "STORE_UNFIT_FOR_MONEY", action: "pay" }]);
    expect(warned[0]?.message).toContain("the memory store: it forgets everything when the process ends");
    await nt.once("refund", [1], async () => 1, { effect: "payment" });
    expect(warned.map(({ action }) => action)).toEqual(["pay", "refund"]);
  });

  it("O13: payments on a best-effort store are warned about with what the store says; a payment that holds is refused", async () => {
    const store = Object.assign(standing(), {
      traits: { ...standing().traits, survives: "best-effort" },
      refuses: async ({ doubt }: { doubt: string }) => (doubt === "hold" ? "appendfsync is everysec." : null),
    });
    const warned: Warning[] = [];
    const nt = nevertwice({ store, sweep: false, onWarning: (warning) => warned.push(warning) });
    onTestFinished(() => nt.close());
    const resent = { effect: "payment", doubt: { resendWithin: "24h" }, key: ["id"] } as const;
    await nt.action("pay", { ...resent, run: async (_: { id: number }) => 1 })({ id: 1 });
    expect(warned).toMatchObject([{ code: "STORE_UNFIT_FOR_MONEY", message: expect.stringContaining("everysec") }]);
    const held = nt.action("held", { effect: "payment", run: async (_: { id: number }) => 1 });
    await expect(held({ id: 1 })).rejects.toMatchObject({ code: "CONFIG" });
  });

  it("O13: a contradiction is told when the action is made", () => {
    const { nt, codes } = listening();
    nt.action("pay", { effect: "payment", keep: "7d", whenStoreDown: "run", run });
    expect(codes()).toEqual(["KEEP_SHORT_FOR_EFFECT", "FAIL_OPEN_FOR_MONEY"]);
    expect(() => nt.action("again", { effect: "payment", doubt: "retry", run })).toThrow(/could be made twice/);
  });

  it("a result that cannot be stored as it is, is told once, and is done all the same", async () => {
    const { nt, codes } = listening();
    const fetchIt = nt.action("fetch", { run: async (_i: { id: number }) => new Response("body") });
    expect(await (await fetchIt({ id: 1 })).text()).toBe("body");
    await fetchIt({ id: 2 });
    expect(codes()).toEqual(["RESULT_NOT_PLAIN"]);
  });

  it("so is one that is too large, or no JSON at all: sealed or not", async () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    for (const encrypt of [undefined, randomBytes(32)]) {
      const warned: Warning[] = [];
      const onWarning = (warning: Warning) => void warned.push(warning);
      const nt = nevertwice({
        store: standing(),
        sweep: false,
        onWarning,
        ...(encrypt && { encrypt, secret: randomBytes(16) }),
      });
      const large = nt.action("large", { run: async (_i: { id: number }) => "x".repeat(1024 * 1024) });
      const odd = nt.action("odd", { run: async (_i: { id: number }) => circle });
      expect([await large({ id: 1 }), await large({ id: 2 }), await odd({ id: 1 })]).toMatchObject([
        expect.stringMatching(/^x+$/),
        expect.stringMatching(/^x+$/),
        { self: expect.anything() },
      ]);
      await expect(large({ id: 1 })).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
      expect(warned.map(({ code, action }) => [code, action])).toEqual([
        ["RESULT_NOT_STORED", "large"],
        ["RESULT_NOT_STORED", "odd"],
      ]);
      expect(warned[0]?.message).toMatch(
        /it is larger than 1048576 bytes\. .* a repeat, .* throws RESULT_UNAVAILABLE\. Return less/,
      );
      expect(warned[1]?.message).toMatch(/cannot be written as JSON/);
      await nt.close();
    }
  });

  it("a throwing onWarning touches no effect", async () => {
    const said = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => said.mockRestore());
    const nt = nevertwice({
      store: standing(),
      sweep: false,
      onWarning: () => {
        throw new Error("a bug");
      },
    });
    const fetchIt = nt.action("fetch", { key: ["at"], run: async (_i: { at: number }) => new Map() });
    expect(await fetchIt.attempt({ at: NOW - 12 })).toMatchObject({ status: "done" });
    await nt.close();
  });
});

eachStore("keep", (open) => {
  it("F43 O8: inside keep a record always guards; past it the intent may run again, swept or not", async () => {
    const { nt, clock, another } = open();
    let runs = 0;
    const options = { key: ["id"], keep: "7d", run: async (_i: { id: number }) => ++runs } as const;
    const send = nt.action("send", options);
    const other = another().action("send", options);
    await send({ id: 1 });
    clock.advance(7 * 86_400_000 - 1_000);
    expect(await nt.sweep()).toMatchObject({ removed: 0 });
    expect([await send({ id: 1 }), await other({ id: 1 })]).toEqual([1, 1]);
    clock.advance(2_000);
    expect(await send.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: false, result: 2, attempt: 1 });
    clock.advance(8 * 86_400_000);
    expect(await nt.sweep()).toMatchObject({ removed: 1 });
    expect(await send({ id: 1 })).toBe(3);
  });

  it("O8: forever is forever, and a doubt is never swept", async () => {
    const { nt, clock } = open();
    const send = nt.action("send", { key: ["id"], keep: "forever", run: async (_i: { id: number }) => 1 });
    const lost = nt.action("lost", {
      key: ["id"],
      keep: "1d",
      run: async (_i: { id: number }): Promise<void> => {
        throw new Error("reply lost");
      },
    });
    await send({ id: 1 });
    await lost.attempt({ id: 1 });
    clock.advance(3_650 * 86_400_000);
    expect(await nt.sweep()).toMatchObject({ removed: 0 });
    expect(await send.attempt({ id: 1 })).toMatchObject({ replayed: true });
    expect(await lost.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
  });
});
