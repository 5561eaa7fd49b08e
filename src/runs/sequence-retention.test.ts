/** How long a subject is known: never shorter than its sequence takes, however often the ledger is swept. */
import { type Nevertwice, rejected, type SequenceOptions, type SequenceStep, year } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore, openMemory } from "../../test/support/each-store.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const by = { by: "ada", reason: "asked to" };
const LONG = ["a", { step: "b", after: "60d" }, { step: "c", after: "200d" }] as const;

function drip(
  nt: Nevertwice,
  sent: string[],
  list: readonly SequenceStep[],
  more: Partial<SequenceOptions<undefined, unknown>> = {},
) {
  return nt.sequence<undefined, unknown>("drip", list, { run: ({ step }) => void sent.push(step), ...more });
}

/** `everyMs`: the worker, the sweep, and what else is done each time. */
async function pass({ nt, clock }: Bench, ms: number, everyMs: number, also: () => Promise<unknown> = async () => {}) {
  const worker = nt.worker();
  for (let passed = 0; passed < ms; passed += everyMs) {
    await also();
    await worker.drain();
    await nt.sweep();
    clock.advance(everyMs);
  }
}

it("steps far apart, swept every hour, started again every hour: each once, and known for as long again", async () => {
  const bench = openMemory();
  const sent: string[] = [];
  const sequence = drip(bench.nt, sent, LONG);
  await pass(bench, 270 * DAY, HOUR, () => sequence.start("ann", undefined));
  expect(sent).toEqual(["a", "b", "c"]);
  await pass(bench, 500 * DAY, DAY / 2, () => sequence.start("ann", undefined));
  expect(sent).toEqual(["a", "b", "c"]);
});

eachStore("a subject", (open) => {
  it("is known for keep after its last step, and begins anew only when nothing of it is kept", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "45d" }], { keep: "46d" });
    await sequence.start("ann", undefined);
    await pass(bench, 47 * DAY, DAY);
    expect(sent).toEqual(["a", "b"]);
    // "a" is gone by now, "b" is not.
    expect((await sequence.status("ann")).steps.map(({ outcome }) => outcome.status)).toEqual(["absent", "done"]);
    expect((await sequence.status("ann")).state).toBe("done");
    expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    await pass(bench, 44 * DAY, DAY, () => sequence.start("ann", undefined));
    expect(sent).toEqual(["a", "b"]);
    await pass(bench, 100 * DAY, 5 * DAY);
    expect(await sequence.start("ann", undefined)).toEqual({ created: true });
  });

  it("whose step came months late is not started anew: what is forgotten before it was settled", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "20d" }, { step: "c", after: "20d" }], {
      keep: "41d",
    });
    await sequence.start("ann", undefined);
    await bench.nt.worker().drain();
    // Nobody works, but the ledger is swept.
    for (let week = 0; week < 60; week += 1) {
      bench.clock.advance(7 * DAY);
      await bench.nt.sweep();
      expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    }
    await pass(bench, 30 * DAY, DAY, () => sequence.start("ann", undefined));
    expect(sent).toEqual(["a", "b", "c"]);
  });

  it("whose steps were all done before nevertwice knew it begins anew later than twice keep", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "2d" }]);
    await sequence.start("ann", undefined, { done: ["a", "b"] });
    expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    bench.clock.advance(50 * DAY);
    expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    bench.clock.advance(100 * DAY);
    await bench.nt.sweep();
    expect(await sequence.start("ann", undefined)).toEqual({ created: true });
    await pass(bench, 4 * DAY, DAY);
    expect(sent).toEqual(["a", "b"]);
  });

  it("with one failed step and onFailed: continue begins anew later than twice keep", async () => {
    const bench = open();
    const sent: string[] = [];
    let refuses = true;
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "2d" }], {
      onFailed: "continue",
      run: ({ step }) => {
        if (step === "a" && refuses) throw rejected(new Error("no"));
        sent.push(step);
      },
    });
    await sequence.start("ann", undefined);
    await pass(bench, 4 * DAY, DAY);
    expect(sent).toEqual(["b"]);
    refuses = false;
    bench.clock.advance(40 * DAY);
    expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    await pass(bench, 150 * DAY, 10 * DAY);
    expect(sent).toEqual(["b"]);
    expect(await sequence.start("ann", undefined)).toEqual({ created: true });
    await pass(bench, 4 * DAY, DAY);
    expect(sent).toEqual(["b", "a", "b"]);
  });

  it("that was stopped stays so until it is restarted, however far off its steps are", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "400d" }]);
    await sequence.start("ann", undefined);
    await bench.nt.worker().drain();
    await sequence.stop("ann", by);
    await pass(bench, 900 * DAY, 10 * DAY, () => sequence.start("ann", undefined));
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a"], "stopped"]);
    await sequence.restart("ann", by);
    await pass(bench, 10 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a", "b"], "done"]);
  });

  it("that was stopped before it was started stays so", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", "b"]);
    await sequence.stop("ann", by);
    await pass(bench, 800 * DAY, 20 * DAY);
    await sequence.start("ann", undefined);
    await pass(bench, 2 * DAY, DAY);
    expect(sent).toEqual([]);
  });

  it("that was stopped long ago goes on with the steps that were not taken, and is not started anew", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "1d" }]);
    await sequence.start("ann", undefined);
    await bench.nt.worker().drain();
    await sequence.stop("ann", by);
    await pass(bench, 90 * DAY, DAY);
    expect(await sequence.start("ann", undefined)).toEqual({ created: false });
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a"], "stopped"]);
    await sequence.restart("ann", by);
    await pass(bench, 2 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a", "b"], "done"]);
  });
});

const THREE = ["a", { step: "b", after: "20d" }, { step: "c", after: "20d" }] as const;

eachStore("a step that was not taken is never forgotten", (open) => {
  /** The first step is refused for good until `mended`. */
  function refusing(bench: Bench, more: Partial<SequenceOptions<undefined, unknown>> = {}) {
    const sent: string[] = [];
    const state = { mended: false };
    const sequence = bench.nt.sequence<undefined, unknown>("drip", THREE, {
      run: ({ step }) => {
        if (step === "a" && !state.mended) throw rejected(new Error("no such address"));
        sent.push(step);
      },
      ...more,
    });
    return { sent, state, sequence };
  }

  it("one that failed for good holds up the steps behind it, also where no worker ran for longer than keep", async () => {
    const bench = open();
    const { sent, state, sequence } = refusing(bench);
    await sequence.start("ann", undefined);
    await bench.nt.worker().drain();
    bench.clock.advance(90 * DAY);
    await bench.nt.sweep();
    await pass(bench, 50 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([[], "failed"]);
    state.mended = true;
    await sequence.restart("ann", by);
    await pass(bench, 50 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a", "b", "c"], "done"]);
  });

  it.each([85, 105, 400])("restarted %i days after it failed for good, it is taken first", async (days) => {
    const bench = open();
    const { sent, state, sequence } = refusing(bench);
    await sequence.start("ann", undefined);
    await pass(bench, days * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([[], "failed"]);
    state.mended = true;
    expect((await sequence.restart("ann", by)).state).toBe("running");
    await pass(bench, 50 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a", "b", "c"], "done"]);
  });

  it("one that was stopped is taken first after a restart", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, THREE);
    await sequence.start("ann", undefined);
    await sequence.stop("ann", by);
    await pass(bench, 200 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([[], "stopped"]);
    await sequence.restart("ann", by);
    await pass(bench, 50 * DAY, DAY);
    expect([sent, (await sequence.status("ann")).state]).toEqual([["a", "b", "c"], "done"]);
  });

  it("one that failed while another was removed behind it is taken after a restart", async () => {
    const bench = open();
    const { state, sequence } = refusing(bench);
    await sequence.start("ann", undefined);
    await bench.nt.worker().drain();
    const sent: string[] = [];
    const nt = bench.another();
    const shorter = nt.sequence<undefined, unknown>("drip", ["a", { step: "c", after: "20d" }], {
      run: ({ step }) => {
        if (step === "a" && !state.mended) throw rejected(new Error("no such address"));
        sent.push(step);
      },
    });
    await pass({ ...bench, nt }, 120 * DAY, DAY);
    state.mended = true;
    await shorter.restart("ann", by);
    await pass({ ...bench, nt }, 50 * DAY, DAY);
    expect([sent, (await shorter.status("ann")).state]).toEqual([["a", "c"], "done"]);
  });

  it("one that the list no longer has is forgotten once nothing depends on it", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = drip(bench.nt, sent, THREE);
    await first.start("ann", undefined);
    await bench.nt.worker().drain();
    const nt = bench.another();
    const shorter = drip(nt, sent, ["a", { step: "b", after: "20d" }]);
    await pass({ ...bench, nt }, 45 * DAY, DAY);
    expect([sent, (await shorter.status("ann")).state]).toEqual([["a", "b"], "done"]);
    await pass({ ...bench, nt }, 250 * DAY, 5 * DAY);
    expect((await bench.store.list({ limit: 10 })).items.map(({ record }) => record.action)).toEqual([]);
  });

  it("once a later step was taken nothing is left to go on with: it and the subject are forgotten as usual", async () => {
    const bench = open();
    const { sent, sequence } = refusing(bench, { onFailed: "continue" });
    await sequence.start("ann", undefined);
    await pass(bench, 45 * DAY, DAY);
    expect(sent).toEqual(["b", "c"]);
    await pass(bench, 250 * DAY, 5 * DAY);
    expect((await bench.store.list({ limit: 10 })).items.map(({ record }) => record.action)).toEqual([]);
    expect((await sequence.status("ann")).state).toBe("absent");
  });
});

eachStore("a subject that names a window", (open) => {
  it("is known while its window can be asked for, where keep is the sequence's own default", async () => {
    const bench = open();
    const { clock, events } = bench;
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "20d" }]);
    const subject = `cust-1 ${year(clock.instant().now)}`;
    const start = () => sequence.start(subject, undefined);
    await pass(bench, 366 * DAY, 10 * DAY, start);
    expect(sent).toEqual(["a", "b"]);
    expect(events.filter(({ type }) => type === "warning")).toEqual([]);
    const { items } = await bench.store.list({ limit: 10, action: "sequence:drip" });
    expect(items).toHaveLength(2);
    for (const { record } of items) expect(record.keepMs).toBeGreaterThanOrEqual(732 * DAY);
  });
});

eachStore("a subject that is done", (open) => {
  it("is known for twice keep after its last step, and not longer", async () => {
    const bench = open();
    const sent: string[] = [];
    const sequence = drip(bench.nt, sent, ["a", { step: "b", after: "1d" }], { keep: "30d" });
    await sequence.start("ann", undefined);
    await pass(bench, 2 * DAY, DAY / 4);
    expect(sent).toEqual(["a", "b"]);
    // The last step was taken a day and some hours ago.
    await pass(bench, 58 * DAY, DAY / 2, () => sequence.start("ann", undefined));
    expect(sent).toEqual(["a", "b"]);
    await pass(bench, 3 * DAY, DAY / 2);
    expect(await sequence.start("ann", undefined)).toEqual({ created: true });
  });
});
