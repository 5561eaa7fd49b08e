import { Readable } from "node:stream";
import { isNevertwiceError, notSent, rejected, type Store } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}

const mails = (count: number) => Array.from({ length: count }, (_, i) => ({ to: `n${i}` }));

eachStore("each", (open) => {
  it("O11 runs every input once; started again, it replays what was done", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => void sent.push(to) });
    expect(await send.each(mails(50), { concurrency: 8 })).toMatchObject({
      done: 50,
      sent: 50,
      replayed: 0,
      complete: true,
    });
    expect(await send.each(mails(60))).toMatchObject({ done: 60, sent: 10, replayed: 50, failed: 0 });
    expect(new Set(sent).size).toBe(60);
    expect(sent).toHaveLength(60);
  });

  it("warns once what it did first is known for less than half of keep: started again later, it would do it again", async () => {
    const { nt, clock, events } = open();
    const sent: string[] = [];
    const send = nt.action("mail", { key: ["to"], keep: "10d", run: async ({ to }: Mail) => void sent.push(to) });
    const warned = () => events.filter((event) => event.type === "warning").map((event) => event.code);
    await send.each(mails(3));
    clock.advance(4 * 86_400_000);
    await send.each(mails(3));
    expect(warned()).toEqual([]);
    clock.advance(2 * 86_400_000);
    await send.each(mails(4));
    expect([warned(), sent.length]).toEqual([["KEEP_SHORT_FOR_EACH"], 4]);
  });

  it("warns also in the middle of a run that takes so long", async () => {
    const { nt, clock, events } = open();
    const send = nt.action("mail", {
      key: ["to"],
      keep: "10d",
      run: async (_: Record<string, unknown>) => clock.advance(86_400_000),
    });
    await send.each(mails(4), { concurrency: 1 });
    expect(events.filter((event) => event.type === "warning")).toEqual([]);
    await send.each(
      Array.from({ length: 7 }, (_, i) => ({ to: `later ${i}` })),
      { concurrency: 1 },
    );
    expect(events.find((event) => event.type === "warning")).toMatchObject({
      code: "KEEP_SHORT_FOR_EACH",
      message: expect.stringMatching(/were done more than half of keep \(10d\) ago/),
    });
  });

  it("reports what failed and what is in doubt, with the inputs, and goes on", async () => {
    const { nt } = open();
    const send = nt.action("mail", {
      key: ["to"],
      wait: 0,
      run: async ({ to }: Mail) => {
        if (to === "n1") throw rejected(new Error("no such mailbox"));
        if (to === "n2") throw notSent(new Error("503"));
        if (to === "n3") throw new Error("socket hang up");
        return to;
      },
    });
    const report = await send.each([...mails(5), { to: "" }]);
    expect(report).toMatchObject({ done: 6, sent: 2, failed: 3, inDoubt: 1, complete: true });
    expect(report.failedInputs.map(({ index, input }) => [index, input.to])).toEqual([
      [1, "n1"],
      [2, "n2"],
      [5, ""],
    ]);
    expect(String(report.failedInputs[2]?.why)).toContain("the part is an empty string");
    expect(report.inDoubtInputs).toMatchObject([{ index: 3, input: { to: "n3" } }]);
    expect(await send.each(mails(5))).toMatchObject({ replayed: 2, failed: 2, inDoubt: 1 });
  });

  it("tells how far it is, and stops when asked to, without losing what runs", async () => {
    const { nt } = open();
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => to });
    const stop = new AbortController();
    const seen: number[] = [];
    const report = await send.each(mails(100), {
      concurrency: 4,
      signal: stop.signal,
      onProgress: ({ done }) => {
        seen.push(done);
        if (done === 10) stop.abort();
      },
    });
    expect(report.complete).toBe(false);
    expect(report.done).toBeGreaterThanOrEqual(10);
    expect(report.done).toBeLessThan(20);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(await send.each(mails(100))).toMatchObject({ sent: 100 - report.done, replayed: report.done });
  });
});

const down = () => notSent(new Error("connect ECONNREFUSED 10.0.0.7:25"));

eachStore("each with stopAfter", (open) => {
  it("O11 ends when the provider is down: nothing new is begun, and the next run begins what is left", async () => {
    const { nt } = open();
    const sent: string[] = [];
    let tried = 0;
    let isDown = true;
    const send = nt.action("mail", {
      key: ["to"],
      wait: 0,
      run: async ({ to }: Mail) => {
        tried += 1;
        if (isDown && tried > 10) throw down();
        sent.push(to);
      },
    });
    const report = await send.each(mails(500), { concurrency: 4, stopAfter: 5 });
    expect(report).toMatchObject({ complete: false, sent: 10, stopped: { inARow: 5 } });
    expect(String(report.stopped?.why)).toContain("ECONNREFUSED");
    // Those that were under way when the fifth failed are waited for.
    expect(report.failed).toBeGreaterThanOrEqual(5);
    expect(report.failed).toBeLessThan(5 + 4);
    isDown = false;
    const again = await send.each(mails(500), { stopAfter: 5 });
    expect(again).toMatchObject({ complete: true, sent: 490, replayed: 10, failed: 0 });
    expect(again).not.toHaveProperty("stopped");
    expect(new Set(sent).size).toBe(500);
    expect(sent).toHaveLength(500);
  });

  it("doubts count; a send ends the row; 0 never ends a run", async () => {
    const { nt, clock } = open();
    const flaky = nt.action("flaky", {
      key: ["to"],
      run: async ({ to }: Mail) => {
        if (Number(to.slice(1)) % 3 !== 0) throw new Error("socket hang up");
      },
    });
    const options = { concurrency: 1, stopAfter: 3 };
    expect(await flaky.each(mails(30), options)).toMatchObject({ complete: true, sent: 10, inDoubt: 20 });
    const lost = nt.action("lost", {
      key: ["to"],
      run: async (_: Mail) => {
        throw new Error("socket hang up");
      },
    });
    expect(await lost.each(mails(30), options)).toMatchObject({ complete: false, inDoubt: 3, stopped: { inARow: 3 } });
    // Doubts of an earlier run say nothing about the provider now. Later by the clock: they are told apart by their time.
    clock.advance(1_000);
    expect(await lost.each(mails(3), options)).toMatchObject({ complete: true, inDoubt: 3 });
    expect(await lost.each(mails(30), { concurrency: 1, stopAfter: 0 })).toMatchObject({ complete: true, inDoubt: 30 });
    expect(await lost.each(mails(60).slice(30), { concurrency: 1 })).toMatchObject({ complete: true, inDoubt: 30 });
  });

  it("final refusals, conflicts, replays and inputs that are no call do not count", async () => {
    const { nt } = open();
    const send = nt.action("mail", {
      key: ["to"],
      run: async ({ to }: Mail & { body: string }) => {
        if (to.startsWith("n")) throw rejected(new Error("550 no such mailbox"));
        return to;
      },
    });
    const options = { concurrency: 1, stopAfter: 2 };
    const refused = mails(5).map((mail) => ({ ...mail, body: "x" }));
    const others = Array.from({ length: 5 }, (_, i) => ({ to: `a${i}`, body: "x" }));
    await send.each(others);
    const inputs = [
      ...refused,
      ...refused,
      ...others,
      ...others.map(({ to }) => ({ to, body: "another" })),
      ...Array.from({ length: 5 }, () => ({ to: "", body: "x" })),
    ];
    expect(await send.each(inputs, options)).toMatchObject({ complete: true, replayed: 5, failed: 20, sent: 0 });
  });
});

describe("each tells what happens", () => {
  it("onProgress has the rate, and the total where it is known", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => to });
    const seen: (number | undefined)[] = [];
    const rates: number[] = [];
    const onProgress = ({ total, rate, done }: { total?: number; rate: number; done: number }) => {
      seen.push(total);
      rates.push(rate);
      expect(done).toBeGreaterThan(0);
    };
    await send.each(mails(3), { onProgress });
    await send.each(new Set(mails(2)), { onProgress });
    await send.each(mails(4).values(), { onProgress, total: 4 });
    await send.each(mails(1).values(), { onProgress });
    expect(seen).toEqual([3, 3, 3, 2, 2, 4, 4, 4, 4, undefined]);
    for (const rate of rates) expect(rate).toSatisfy((value: number) => value >= 0 && Number.isFinite(value));
    expect(rates.some((rate) => rate > 0)).toBe(true);
  });

  it("onFailure hears of each failure and doubt when it happens, is waited for, and may end the run", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", {
      key: ["to"],
      run: async ({ to }: Mail) => {
        if (to === "n1") throw rejected(new Error("no such mailbox"));
        if (to === "n2") throw new Error("socket hang up");
        return to;
      },
    });
    const { opened, open: release } = gate();
    const heard: unknown[] = [];
    let done = 0;
    const running = send.each([...mails(4), { to: "" }], {
      concurrency: 1,
      onProgress: (progress) => {
        done = progress.done;
      },
      onFailure: async ({ status, index, key, why }) => {
        heard.push([status, index, key === undefined, String(why)]);
        await opened;
      },
    });
    await until(() => heard.length === 1);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((next) => setImmediate(next));
    expect(done).toBe(1);
    release();
    expect(await running).toMatchObject({ done: 5, sent: 2, failed: 2, inDoubt: 1 });
    expect(heard).toEqual([
      ["failed", 1, false, expect.stringContaining("no such mailbox")],
      ["unknown", 2, false, expect.stringContaining("an error nobody classified")],
      ["failed", 4, true, expect.stringContaining("empty string")],
    ]);
    const full = () => {
      throw new Error("no space left on device");
    };
    await expect(send.each(mails(4), { onFailure: full })).rejects.toThrow("no space left");
  });
});

describe("each over what it is given", () => {
  it("streams and generators are pulled no further ahead than what runs, and closed when it ends early", async () => {
    const { nt } = openMemory();
    const { opened, open: release } = gate();
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => opened });
    let pulled = 0;
    let closed = false;
    async function* endless() {
      try {
        for (;;) {
          pulled += 1;
          yield { to: `n${pulled}` };
        }
      } finally {
        closed = true;
      }
    }
    const stop = new AbortController();
    const running = send.each(endless(), { concurrency: 5, signal: stop.signal });
    await until(() => pulled >= 5);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done));
    expect(pulled).toBe(5);
    stop.abort();
    release();
    expect(await running).toMatchObject({ done: 5, complete: false });
    expect(closed).toBe(true);
    const objects = nt.action("objects", { key: ["to"], run: async (_: Mail) => 1 });
    expect(await objects.each(Readable.from(mails(7)))).toMatchObject({ sent: 7 });
    expect(await objects.each(new Set(mails(9)))).toMatchObject({ sent: 2, replayed: 7 });
  });

  it("keeps no more of the failed inputs than told, and counts them all", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        throw rejected(new Error("no"));
      },
    });
    const report = await send.each(mails(30), { keep: 4 });
    expect(report.failed).toBe(30);
    expect(report.failedInputs).toHaveLength(4);
  });

  it("a store that goes down ends the run, says how far it got, and nothing is lost", async () => {
    let calls = 0;
    const failing = (store: Store): Store =>
      new Proxy(store, {
        get(target, name) {
          const value = Reflect.get(target, name);
          if (name === "write" && calls > 20) return () => Promise.reject(new Error("disk gone"));
          if (name === "write") calls += 1;
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    const { nt } = openMemory({ wrap: failing });
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => to });
    const error = await send.each(mails(1_000), { concurrency: 1 }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (!isNevertwiceError(error)) throw new Error("expected a NevertwiceError");
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.message).toContain("Start it again with the same inputs");
    expect(error.outcome).toMatchObject({ complete: false, failed: 0 });
  });

  it("a source that fails ends the run with its own error", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => to });
    async function* broken() {
      yield { to: "a" };
      throw new Error("the file ended early");
    }
    await expect(send.each(broken())).rejects.toThrow("the file ended early");
  });

  it("says what is wrong", async () => {
    const { nt } = openMemory();
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => to });
    await expect(send.each(7 as unknown as Mail[])).rejects.toThrow("not iterable");
    await expect(send.each([], { concurrency: 0 })).rejects.toThrow("concurrency is 0");
    await expect(send.each([], { stopAfter: -1 })).rejects.toThrow("stopAfter is -1");
    await expect(send.each([], { total: 1.5 })).rejects.toThrow("total is 1.5");
  });
});
