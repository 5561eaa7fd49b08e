import type { ProbeAnswer } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

interface Mail {
  to: string;
}
const mail = { to: "a" };

eachStore("probe", (open) => {
  const inDoubt = async (probe: (mail: Mail, ctx: { signal: AbortSignal }) => unknown, timeout = 200) => {
    const bench = open();
    let runs = 0;
    const send = bench.nt.action("mail", {
      key: ["to"],
      timeout,
      doubt: { quietFor: "2m", probe: probe as () => Promise<ProbeAnswer<string>> },
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs === 1) throw new Error("reply lost");
        return `run ${runs}`;
      },
    });
    expect(await send.attempt(mail, { wait: 0 })).toMatchObject({ status: "unknown" });
    bench.clock.advance(120_001);
    return { ...bench, send, runs: () => runs };
  };

  it("done: confirmed with the probe's result, not run again", async () => {
    const { send, runs, events } = await inDoubt(() => ({ as: "done", result: "found" }));
    expect(await send(mail)).toBe("found");
    expect(events).toContainEqual(expect.objectContaining({ type: "settled", as: "done", how: "probe" }));
    expect(runs()).toBe(1);
  });

  it("not done: run again, once", async () => {
    const { send, runs } = await inDoubt(() => "not-done");
    expect(await send.attempt(mail)).toMatchObject({ status: "done", result: "run 2", attempt: 2 });
    expect(runs()).toBe(2);
  });

  it("F27: a probe that throws, answers nonsense, or does not know settles nothing", async () => {
    const answers: (() => unknown)[] = [
      () => {
        throw new Error("search is down");
      },
      async () => Promise.reject(new Error("search is down")),
      () => "unknown",
      () => ({ as: "unknown" }),
      () => undefined,
      () => null,
      () => true,
      () => [],
      () => "done",
      () => ({ as: "notdone" }),
    ];
    for (const answer of answers) {
      const { send, runs } = await inDoubt(answer);
      expect(await send.attempt(mail)).toMatchObject({ status: "unknown", attempt: 1 });
      expect(runs()).toBe(1);
    }
  });

  it("F27: a probe that lags past its time is aborted and settles nothing, even if it answers later", async () => {
    let reason: unknown;
    const { send, runs } = await inDoubt(
      (_mail, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            reason = signal.reason;
            resolve("not-done");
          });
        }),
      30,
    );
    expect(await send.attempt(mail)).toMatchObject({ status: "unknown" });
    expect(reason).toMatchObject({ name: "TimeoutError" });
    expect(runs()).toBe(1);
  });

  it("F27: a probe that answers about an attempt that is no longer the last one settles nothing", async () => {
    const { send, nt, clock, record } = await inDoubt(async () => {
      await nt.resolve({ key }, { as: "not-done", by: "ana", reason: "looked" });
      return { as: "done", result: "stale" };
    });
    const key = await send.keyOf(mail);
    clock.advance(1);
    expect(await send.attempt(mail)).toMatchObject({ status: "done", result: "run 2" });
    expect((await record(key)).result).toEqual({ json: '"run 2"' });
  });
});

it("the probe hears what it needs: input, key, attempt, when it was sent", async () => {
  const { nt, clock } = openMemory();
  let heard: unknown[] = [];
  const send = nt.action("mail", {
    key: ["to"],
    doubt: {
      quietFor: 0,
      probe: (input, ctx) => {
        heard = [input, ctx.key, ctx.attempt, ctx.firstSentAt <= ctx.lastSentAt, ctx.providerKey("uuid").length];
        return { as: "done", result: "x" };
      },
    },
    run: async (_mail: Mail): Promise<string> => {
      throw new Error("reply lost");
    },
  });
  await send.attempt(mail, { wait: 0 });
  clock.advance(10);
  expect(await send(mail)).toBe("x");
  expect(heard).toEqual([mail, await send.keyOf(mail), 1, true, 36]);
});
