/** A list of steps that changes, stops and restarts: a subject goes forward only, and tries are counted as given. */
import { type Nevertwice, notSent, rejected, type SequenceOptions, type SequenceStep } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const by = { by: "ada", reason: "asked to" };

type Options = Partial<SequenceOptions<undefined, unknown>>;

/** One release of the program: its own nevertwice() on the ledger, with its own list. */
function release(nt: Nevertwice, sent: string[], list: readonly SequenceStep[], more: Options = {}) {
  const sequence = nt.sequence<undefined, unknown>("drip", list, {
    after: "1d",
    retry: { attempts: 3, backoff: 1 },
    run: ({ step }) => {
      sent.push(step);
    },
    ...more,
  });
  return { nt, sequence, worker: nt.worker() };
}

async function days({ clock }: Bench, worker: { drain(): Promise<unknown> }, count: number): Promise<void> {
  for (let day = 0; day < count; day += 1) {
    await worker.drain();
    clock.advance(DAY + 1_000);
  }
  await worker.drain();
}

eachStore("a sequence whose list changes", (open) => {
  it("steps put in front of or between finished steps are not taken; steps put after them are", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = release(bench.nt, sent, ["a", "b", "c"]);
    await first.sequence.start("ann", undefined);
    await days(bench, first.worker, 1);
    expect(sent).toEqual(["a", "b"]);
    await first.worker.stop();
    const second = release(bench.another(), sent, ["zero", "a", "half", "b", "between", "c", "d"]);
    await second.sequence.start("ann", undefined);
    await days(bench, second.worker, 12);
    expect(sent).toEqual(["a", "b", "between", "c", "d"]);
    expect((await second.sequence.status("ann")).state).toBe("done");
    await second.sequence.start("ann", undefined);
    await days(bench, second.worker, 12);
    expect(sent).toEqual(["a", "b", "between", "c", "d"]);
  });

  it("a step that was added in front too late is taken where a later release puts it at the end", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = release(bench.nt, sent, ["a", "b"]);
    await first.sequence.start("ann", undefined);
    await first.worker.drain();
    await first.worker.stop();
    const second = release(bench.another(), sent, ["g", "a", "b"]);
    await second.sequence.start("ann", undefined);
    const third = release(bench.another(), sent, ["a", "b", "g"]);
    await third.sequence.start("ann", undefined);
    await days(bench, third.worker, 12);
    expect(sent).toEqual(["a", "b", "g"]);
    expect((await third.sequence.status("ann")).state).toBe("done");
  });

  it("a doubt about a step that the list no longer has is named by status and restart", async () => {
    const bench = open();
    const sent: string[] = [];
    const lost = () => {
      throw new Error("no answer");
    };
    const first = release(bench.nt, sent, ["a", "b"], { run: lost, doubt: "hold" });
    await first.sequence.start("ann", undefined);
    await first.worker.drain();
    await first.worker.stop();
    const second = release(bench.another(), sent, ["b"]);
    await days(bench, second.worker, 3);
    const { state, steps } = await second.sequence.status("ann");
    expect(state).toBe("held");
    expect(steps).toContainEqual({ step: "a", outcome: expect.objectContaining({ status: "unknown" }) });
    await expect(second.sequence.restart("ann", by)).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
      message: expect.stringMatching(/its step "a" is in doubt/),
    });
    expect(sent).toEqual([]);
  });

  it("a step between, for a subject that is not started again, does not hold up the ones after it", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = release(bench.nt, sent, ["a", "b"]);
    await first.sequence.start("ann", undefined);
    await first.worker.drain();
    await first.worker.stop();
    const second = release(bench.another(), sent, ["a", "new", "b"]);
    await days(bench, second.worker, 40);
    expect(sent).toEqual(["a", "b"]);
    expect((await second.sequence.status("ann")).state).toBe("done");
    await second.sequence.start("ann", undefined);
    await days(bench, second.worker, 5);
    expect(sent).toEqual(["a", "b"]);
  });

  it("a step in another's place is not taken by who has the removed one behind it, and is by who has not", async () => {
    const bench = open();
    const sent: string[] = [];
    const run: Options = { run: ({ subject, step }) => void sent.push(`${subject} ${step}`) };
    const first = release(bench.nt, sent, ["a", "b", "c", "d"], run);
    await first.sequence.start("ann", undefined);
    await days(bench, first.worker, 2);
    await first.sequence.start("bob", undefined);
    await first.worker.drain();
    expect(sent).toEqual(["ann a", "ann b", "ann c", "bob a"]);
    await first.worker.stop();
    const second = release(bench.another(), sent, ["a", "b", "c2", "d"], run);
    await second.sequence.start("ann", undefined);
    await second.sequence.start("bob", undefined);
    await days(bench, second.worker, 12);
    expect(sent.filter((line) => line.startsWith("ann"))).toEqual(["ann a", "ann b", "ann c", "ann d"]);
    expect(sent.filter((line) => line.startsWith("bob"))).toEqual(["bob a", "bob b", "bob c2", "bob d"]);
  });

  it("a reordered list: a step that now comes before a finished one is not taken", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = release(bench.nt, sent, ["a", "b", "c", "d"]);
    await first.sequence.start("ann", undefined);
    await days(bench, first.worker, 1);
    await first.worker.stop();
    const second = release(bench.another(), sent, ["a", "c", "b", "d"]);
    await days(bench, second.worker, 12);
    expect(sent).toEqual(["a", "b", "d"]);
    const { state, steps } = await second.sequence.status("ann");
    expect([state, steps.map(({ outcome }) => outcome.status)]).toEqual(["done", ["done", "failed", "done", "done"]]);
    expect(steps[1]?.outcome).toMatchObject({
      error: { message: expect.stringMatching(/"b".* is behind it already/) },
    });
  });

  it("a removed step fails as such, and is taken after all where the list has it again and it is not too late", async () => {
    const bench = open();
    const sent: string[] = [];
    const first = release(bench.nt, sent, ["a", "b", "c"], { after: "5d" });
    await first.sequence.start("ann", undefined);
    await first.worker.drain();
    await first.worker.stop();
    const second = release(bench.another(), sent, ["a", "c"], { after: "5d" });
    await days(bench, second.worker, 6);
    await second.worker.stop();
    expect(sent).toEqual(["a"]);
    const third = release(bench.another(), sent, ["a", "b", "c"], { after: "5d" });
    await third.sequence.start("ann", undefined);
    await days(bench, third.worker, 30);
    expect(sent).toEqual(["a", "b", "c"]);
    expect((await third.sequence.status("ann")).state).toBe("done");
  });
});

eachStore("a stop and a restart", (open) => {
  it.each(["start", "restart"] as const)(
    "with onFailed continue, a step that failed before a finished one is not taken by %s",
    async (how) => {
      const bench = open();
      const sent: string[] = [];
      let refused = true;
      const { sequence, worker } = release(bench.nt, sent, ["a", "b", "c", "d"], {
        onFailed: "continue",
        retry: { attempts: 1 },
        run: ({ step }) => {
          if (step === "a" && refused) throw notSent(new Error("no connection"));
          sent.push(step);
        },
      });
      await sequence.start("ann", undefined);
      await days(bench, worker, 2);
      expect(sent).toEqual(["b", "c"]);
      refused = false;
      await sequence.stop("ann", by);
      if (how === "start") await sequence.start("ann", undefined);
      await sequence.restart("ann", by);
      await days(bench, worker, 12);
      expect(sent).toEqual(["b", "c", "d"]);
    },
  );

  it("a step that was brought back by hand, behind a finished one, is refused and says why", async () => {
    const bench = open();
    const sent: string[] = [];
    let refused = true;
    const { nt, sequence, worker } = release(bench.nt, sent, ["a", "b"], {
      onFailed: "continue",
      run: ({ step }) => {
        if (step === "a" && refused) throw rejected(new Error("550 no such mailbox"));
        sent.push(step);
      },
    });
    await sequence.start("ann", undefined);
    await days(bench, worker, 2);
    refused = false;
    const { steps } = await sequence.status("ann");
    await nt.retry({ key: steps[0]?.outcome.key as string }, by);
    await days(bench, worker, 2);
    expect(sent).toEqual(["b"]);
    expect((await bench.record(steps[0]?.outcome.key as string)).error?.message).toMatch(/"b".* is behind it already/);
  });
});

eachStore("attempts of a step", (open) => {
  it("are as many as given, over workers, restarts of the program, and sweeps", async () => {
    const bench = open();
    const calls: string[] = [];
    const options: Options = {
      retry: { attempts: 3, backoff: "10m", max: "10m" },
      run: ({ step }) => {
        calls.push(step);
        if (step === "b") throw notSent(new Error("no connection"));
      },
    };
    const { sequence } = release(bench.nt, [], ["a", { step: "b", after: "2d" }, "c"], options);
    await sequence.start("ann", undefined);
    // Nobody works for a while, so that "b" is due long before it may be taken, and is put off again and again.
    bench.clock.advance(5 * DAY);
    for (let look = 0; look < 40; look += 1) {
      const nt = bench.another();
      const { worker } = release(nt, [], ["a", { step: "b", after: "2d" }, "c"], options);
      await worker.drain();
      await nt.sweep();
      await worker.stop();
      bench.clock.advance(DAY / 4);
    }
    expect(calls).toEqual(["a", "b", "b", "b"]);
    const { state, steps } = await sequence.status("ann");
    expect([state, steps.map(({ outcome }) => outcome.status)]).toEqual(["failed", ["done", "failed", "failed"]]);
    expect((await bench.record(steps[1]?.outcome.key as string)).attempt).toBe(3);
  });

  it("do not include the times a step is put off: one that had to wait often still has all of them", async () => {
    const bench = open();
    const calls: string[] = [];
    const { sequence, worker } = release(bench.nt, [], ["a", { step: "b", after: "2d" }], {
      retry: { attempts: 2, backoff: 1 },
      run: ({ step }) => {
        calls.push(step);
        if (step === "b" && calls.length < 3) throw notSent(new Error("no connection"));
      },
    });
    await sequence.start("ann", undefined);
    await worker.drain();
    const key = (await sequence.status("ann")).steps[1]?.outcome.key as string;
    for (let look = 0; look < 40; look += 1) {
      const [stored] = await bench.store.read([key]);
      if (!stored) throw new Error("there is no step b");
      // As if it had been due early: the worker takes it and puts it off.
      await bench.store.write([{ record: { ...stored.record, dueAt: 0 }, expected: stored.version }]);
      await worker.drain();
    }
    expect(calls).toEqual(["a"]);
    await days(bench, worker, 3);
    expect([calls, (await sequence.status("ann")).state]).toEqual([["a", "b", "b"], "done"]);
  });
});
