/** Calls of a sequence that break off between two writes: the order is kept, nothing is lost, nothing is taken twice. */
import { type Nevertwice, rejected } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore, openMemory } from "../../test/support/each-store.ts";
import type { Store } from "../core/store.ts";

const DAY = 86_400_000;
const by = { by: "ada", reason: "asked to" };
const STEPS = ["a", { step: "b", after: "1d" }, { step: "c", after: "1d" }, { step: "d", after: "9d" }] as const;
const MOST_WRITES = 12;

/** From its write number `at` on, the store fails: before it has written, or after. */
function breaksOff() {
  const fault = { at: Number.POSITIVE_INFINITY, kept: false };
  const wrap = (store: Store): Store =>
    new Proxy(store, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        return async (...args: unknown[]) => {
          const breaks = name === "write" && --fault.at < 0;
          if (breaks && !(fault.kept && fault.at === -1)) throw new Error("the store went away");
          const answer = await value.apply(target, args);
          if (breaks) throw new Error("the answer was lost");
          return answer;
        };
      },
    });
  return { fault, wrap };
}

type Mode = { readonly onFailed: "stop" | "continue"; readonly kept: boolean; readonly again: boolean };
const MODES: Mode[] = (["stop", "continue"] as const).flatMap((onFailed) =>
  [false, true].flatMap((kept) => [false, true].map((again) => ({ onFailed, kept, again }))),
);

function drip(nt: Nevertwice, sent: string[], onFailed: "stop" | "continue", refused: ReadonlySet<string> = new Set()) {
  return nt.sequence("drip", STEPS, {
    onFailed,
    keep: "forever",
    retry: { attempts: 2, backoff: 1 },
    run: ({ step }) => {
      if (refused.has(step)) throw rejected(new Error(`${step} is refused`));
      sent.push(step);
    },
  });
}

async function daysPass({ nt, clock }: Bench, days: number): Promise<void> {
  const worker = nt.worker();
  for (let day = 0; day < days; day += 1) {
    await worker.drain();
    clock.advance(DAY + 1_000);
  }
  await worker.drain();
}

eachStore("a restart that breaks off", (open) => {
  it.each(MODES)(
    "at any write: $onFailed, written: $kept, called again before a worker looks: $again",
    async (mode) => {
      for (let at = 0; at < MOST_WRITES; at += 1) {
        const bench = open();
        const { fault, wrap } = breaksOff();
        const sent: string[] = [];
        const sequence = drip(bench.nt, sent, mode.onFailed);
        const breaking = drip(bench.another({ wrap }), sent, mode.onFailed);
        await sequence.start("ann", undefined);
        await bench.nt.worker().drain();
        await sequence.stop("ann", by);
        await daysPass(bench, 4);
        Object.assign(fault, { at, kept: mode.kept });
        await breaking.restart("ann", by).catch(() => {});
        if (!mode.again) await daysPass(bench, 40);
        expect("abcd".startsWith(sent.join("")), `write ${at}: ${sent}`).toBe(true);
        await sequence.restart("ann", by);
        await daysPass(bench, 40);
        expect([at, sent.join(""), (await sequence.status("ann")).state]).toEqual([at, "abcd", "done"]);
      }
    },
  );
});

it("a restart that breaks off before a refused step is queued again does not let the ones after it go first", async () => {
  for (let at = 0; at < MOST_WRITES; at += 1) {
    const bench = openMemory();
    const { fault, wrap } = breaksOff();
    const sent: string[] = [];
    const refused = new Set(["b"]);
    const sequence = drip(bench.nt, sent, "continue", refused);
    const breaking = drip(bench.another({ wrap }), sent, "continue");
    await sequence.start("ann", undefined);
    await daysPass(bench, 1);
    expect((await sequence.status("ann")).steps[1]?.outcome.status).toBe("failed");
    await sequence.stop("ann", by);
    refused.clear();
    Object.assign(fault, { at });
    const broke = await breaking.restart("ann", by).then(
      () => false,
      () => true,
    );
    await daysPass(bench, 40);
    await sequence.restart("ann", by);
    await daysPass(bench, 40);
    expect([at, broke, sent.join("")]).toEqual([at, broke, "abcd"]);
  }
});

eachStore("a start that breaks off", (open) => {
  it.each([false, true])(
    "at any write (written: %s): called again, every step is taken once, in order",
    async (kept) => {
      for (const workerFirst of [false, true]) {
        for (let at = 0; at < MOST_WRITES; at += 1) {
          const bench = open();
          const { fault, wrap } = breaksOff();
          const sent: string[] = [];
          const sequence = drip(bench.nt, sent, "continue");
          const breaking = drip(bench.another({ wrap }), sent, "continue");
          Object.assign(fault, { at, kept });
          await breaking.start("ann", undefined).catch(() => {});
          if (workerFirst) await daysPass(bench, 3);
          await sequence.start("ann", undefined);
          await daysPass(bench, 40);
          expect([at, sent.join("")]).toEqual([at, "abcd"]);
        }
      }
    },
  );
});

it.each([false, true])("a stop that breaks off (written: %s) is called again and stops", async (kept) => {
  const bench = openMemory();
  const { fault, wrap } = breaksOff();
  const sent: string[] = [];
  const sequence = drip(bench.nt, sent, "continue");
  const breaking = drip(bench.another({ wrap }), sent, "continue");
  await sequence.start("ann", undefined);
  await bench.nt.worker().drain();
  Object.assign(fault, { at: 0, kept });
  await expect(breaking.stop("ann", by)).rejects.toThrow();
  await sequence.stop("ann", by);
  await daysPass(bench, 20);
  expect([sent.join(""), (await sequence.status("ann")).state]).toEqual(["a", "stopped"]);
});
