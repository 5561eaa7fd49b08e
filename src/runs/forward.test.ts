import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decide, isBehind, isQueuedAgain, type ListedStep, type Standing, stepsBehind, withList } from "./forward.ts";

const over = (...steps: string[]) => {
  const set = new Set(steps);
  return (step: string) => set.has(step);
};

describe("how many steps of a list a subject has behind it", () => {
  it.each([
    ["nothing taken", "abc", "abc", "", 0],
    ["the first", "abc", "abc", "a", 1],
    ["all", "abc", "abc", "abc", 3],
    ["one in front", "xab", "ab", "a", 2],
    ["one between finished ones", "axb", "ab", "ab", 3],
    ["one right after the last finished one", "axb", "ab", "a", 1],
    ["one at the end", "abx", "ab", "ab", 2],
    ["one that failed before one that is done", "abc", "abc", "b", 2],
    ["reordered", "acb", "abc", "ab", 3],
    ["removed, and taken before", "abxd", "abcd", "abc", 3],
    ["removed, and not taken", "abxd", "abcd", "ab", 2],
    ["the last one removed, and taken", "abx", "abc", "abc", 3],
    ["the last one removed, and not taken", "abx", "abc", "ab", 2],
    ["another name for each", "xyz", "abc", "a", 3],
  ])("%s", (_name, list, enrolled, taken, behind) => {
    expect(stepsBehind([...list], [...enrolled], over(...taken))).toBe(behind);
  });
});

const names = fc.uniqueArray(fc.constantFrom(..."abcdefgh"), { minLength: 1 });

describe("whatever lists a subject meets", () => {
  it("a step before a finished one is over, and one that is taken last leaves the ones after it", () => {
    fc.assert(
      fc.property(names, names, fc.array(fc.nat(7)), (list, enrolled, picks) => {
        const taken = new Set(picks.map((pick) => enrolled[pick % enrolled.length] as string));
        const behind = stepsBehind(list, enrolled, (step) => taken.has(step));
        list.forEach((step, place) => {
          if (taken.has(step)) expect(behind).toBeGreaterThan(place);
        });
        // Without removed steps nothing but the finished ones decides.
        if (enrolled.every((step) => list.includes(step) || !taken.has(step)))
          expect(behind).toBe(list.findLastIndex((step) => taken.has(step)) + 1);
      }),
    );
  });

  it("what is over stays over when more is taken", () => {
    fc.assert(
      fc.property(names, names, fc.subarray([..."abcdefgh"]), fc.subarray([..."abcdefgh"]), (list, enrolled, a, b) => {
        const fewer = stepsBehind(list, enrolled, over(...a));
        expect(stepsBehind(list, enrolled, over(...a, ...b))).toBeGreaterThanOrEqual(fewer);
      }),
    );
  });

  it("the list that is kept names each step once, has the present list in order, and decides the same", () => {
    fc.assert(
      fc.property(names, names, fc.subarray([..."abcdefgh"]), (list, enrolled, taken) => {
        const kept = withList(enrolled, list);
        expect([...kept].sort()).toEqual([...new Set([...list, ...enrolled])].sort());
        expect(kept.filter((step) => list.includes(step))).toEqual(list);
        expect(stepsBehind(list, kept, over(...taken))).toBe(stepsBehind(list, enrolled, over(...taken)));
        expect(withList(kept, list)).toEqual(kept);
      }),
    );
  });

  it("over any releases, each with a worker that takes what it may: no step twice, none before one that was taken", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(names, fc.nat(4)), { minLength: 1, maxLength: 6 }), (releases) => {
        const taken: string[] = [];
        let enrolled: string[] = [];
        for (const [list, takes] of releases) {
          enrolled = withList(enrolled, list);
          for (let i = 0; i < takes; i += 1) {
            const next = list[stepsBehind(list, enrolled, (step) => taken.includes(step))];
            if (next === undefined) break;
            expect(taken).not.toContain(next);
            const places = taken.map((step) => list.indexOf(step));
            expect(Math.max(-1, ...places)).toBeLessThan(list.indexOf(next));
            taken.push(next);
          }
        }
      }),
    );
  });
});

const DAY = 86_400_000;
const step = (name: string, standing: Standing, settledAt: number | null = null): ListedStep => ({
  step: name,
  standing,
  settledAt,
  why: "550",
});
const at = (steps: ListedStep[], place: number, now: number, onFailed: "stop" | "continue" = "stop") => {
  const behind = steps.findLastIndex(({ standing }) => isBehind(standing)) + 1;
  const lastTakenAt = steps.reduce<number | null>((last, one) => one.settledAt ?? last, null);
  return decide({ steps, behind, lastTakenAt }, place, { afterMs: DAY, onFailed, now });
};

describe("whether a step may begin", () => {
  it("the first one, at once", () => {
    expect(at([step("a", "waiting")], 0, 5)).toEqual({ do: "begin" });
  });

  it("one after a finished one, when its time has passed", () => {
    const steps = [step("a", "taken", 100), step("b", "waiting")];
    expect(at(steps, 1, 200)).toEqual({ do: "wait", until: 100 + DAY, before: "a", yields: false });
    expect(at(steps, 1, 100 + DAY)).toEqual({ do: "begin" });
  });

  it("not before one that is still to come, which it lets pass", () => {
    expect(at([step("a", "waiting"), step("b", "waiting")], 1, 0)).toMatchObject({ do: "wait", yields: true });
  });

  it("not while the one before it is in doubt", () => {
    expect(at([step("a", "taken"), step("b", "waiting")], 1, 9 * DAY)).toMatchObject({ do: "wait", yields: false });
  });

  it.each(["absent", "forgotten", "passed", "unlisted"] as const)("one that is %s does not hold it up", (standing) => {
    expect(at([step("a", "taken", 1), step("x", standing), step("b", "waiting")], 2, 2 * DAY)).toEqual({ do: "begin" });
  });

  it("after one that failed only with continue, and after one that was stopped never", () => {
    const failed = [step("a", "failed", 1), step("b", "waiting")];
    expect(at(failed, 1, 2 * DAY)).toMatchObject({ do: "refuse", as: "blocked" });
    const blocked = [...failed.slice(0, 1), step("b", "blocked", 1), step("c", "waiting")];
    expect(at(blocked, 2, 2 * DAY)).toMatchObject({ do: "refuse", as: "blocked" });
    expect(at(failed, 1, 2 * DAY, "continue")).toEqual({ do: "begin" });
    const stopped = [step("a", "stopped", 1), step("b", "waiting")];
    expect(at(stopped, 1, 2 * DAY, "continue")).toMatchObject({ do: "refuse", as: "stopped" });
  });

  it("never when a later one is behind the subject", () => {
    expect(at([step("a", "waiting"), step("b", "taken", 1)], 0, 2 * DAY)).toMatchObject({
      do: "refuse",
      as: "passed",
      why: expect.stringMatching(/^"b", which comes later in the list, is behind it already/),
    });
  });
});

describe("whether a start queues a step again", () => {
  it("that failed because of the step before it: together with that one, not while that one stays failed", () => {
    expect(isQueuedAgain("blocked", "waiting", "stop")).toBe(true);
    expect(isQueuedAgain("blocked", null, "stop")).toBe(true);
    expect(isQueuedAgain("blocked", "failed", "stop")).toBe(false);
    expect(isQueuedAgain("blocked", "blocked", "stop")).toBe(false);
    expect(isQueuedAgain("blocked", "failed", "continue")).toBe(true);
    expect(isQueuedAgain("blocked", "stopped", "continue")).toBe(false);
  });

  it("that failed by itself, or was removed and is back: always", () => {
    for (const standing of ["failed", "unlisted", "absent", "waiting"] as const)
      expect(isQueuedAgain(standing, "failed", "stop")).toBe(true);
  });
});
