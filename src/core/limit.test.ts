import { describe, expect, it } from "vitest";
import { askLane, EMPTY_LANE, type LaneState, type Limit, leaveLane, resolveLimit } from "./limit.ts";
import type { Instant } from "./record.ts";

const AT: Instant = { now: 1_000_000, steady: 5_000, epoch: "boot" };
const later = (ms: number): Instant => ({ ...AT, now: AT.now + ms, steady: AT.steady + ms });
const wishes = (...ids: string[]) => ids.map((id) => ({ id, holdMs: 1_000 }));
const two: Limit = { by: null, concurrency: 2, spacingMs: null };
const tenASecond: Limit = { by: null, concurrency: null, spacingMs: 100 };

describe("limit: what it may say", () => {
  it("rates in any unit, evenly spaced", () => {
    const spacing = (rate: string) => resolveLimit({ rate }, "action")?.spacingMs;
    expect(spacing("10/s")).toBe(100);
    expect(spacing("600/m")).toBe(100);
    expect(spacing("100/10s")).toBe(100);
    expect(spacing("1/h")).toBe(3_600_000);
  });

  it("nothing unless asked for", () => expect(resolveLimit(undefined, "action")).toBeNull());

  it("says what is wrong", () => {
    const wrong = (limit: object) => () => resolveLimit(limit, 'action "mail"');
    expect(wrong({})).toThrow("neither concurrency nor rate");
    expect(wrong({ rate: "fast" })).toThrow('"fast" is not a rate');
    expect(wrong({ rate: "0/s" })).toThrow("is not a rate");
    expect(wrong({ concurrency: 0 })).toThrow("from 1 to 1000");
    expect(wrong({ concurrency: 1, by: "domain" })).toThrow("limit.by must be a function");
    expect(wrong({ concurrency: 1, per: 2 })).toThrow('no option "per"');
  });
});

describe("limit: concurrency", () => {
  it("no more than that hold a slot; the rest is put off, each behind the last", () => {
    const { state, answers } = askLane(EMPTY_LANE, two, wishes("a", "b", "c", "d"), AT);
    expect(answers.map(({ go }) => go)).toEqual([true, true, false, false]);
    expect(state.held.map(({ id }) => id)).toEqual(["a", "b"]);
    expect(answers[3]?.at).toBeGreaterThan(answers[2]?.at ?? 0);
    expect(answers[2]?.at).toBeGreaterThan(AT.now);
  });

  it("a slot given back is free; one whose holder fell silent, when its time is over or the machine was started anew", () => {
    const { state } = askLane(EMPTY_LANE, two, wishes("a", "b"), AT);
    const freed = leaveLane(state, new Set(["a"]), 40);
    expect(askLane(freed, two, wishes("c"), AT).answers[0]).toMatchObject({ go: true });
    expect(askLane(state, two, wishes("c"), later(999)).answers[0]).toMatchObject({ go: false });
    expect(askLane(state, two, wishes("c"), later(1_000)).answers[0]).toMatchObject({ go: true });
    expect(askLane(state, two, wishes("c"), { ...AT, epoch: "next" }).answers[0]).toMatchObject({ go: true });
  });

  it("what is put off comes back about when there is room, however long one takes", () => {
    let state: LaneState = EMPTY_LANE;
    for (let i = 0; i < 100; i += 1) state = leaveLane(state, new Set(), 4_000);
    const { answers } = askLane(askLane(state, two, wishes("a", "b"), AT).state, two, wishes("c", "d"), AT);
    const [first = 0, second = 0] = answers.map(({ at }) => at - AT.now);
    expect(second - first).toBeGreaterThan(1_900);
    expect(second - first).toBeLessThan(2_100);
  });
});

describe("limit: rate", () => {
  it("one begin per spacing, across all who ask", () => {
    const { state, answers } = askLane(EMPTY_LANE, tenASecond, wishes("a", "b", "c", "d"), AT);
    // Three begin soon enough to be waited for; the fourth would wait for 300 ms, and comes back.
    expect(answers.map(({ go, at }) => [go, at - AT.now])).toEqual([
      [true, 0],
      [true, 100],
      [true, 200],
      [false, 400],
    ]);
    const again = askLane(state, tenASecond, wishes("e"), later(250)).answers[0];
    expect(again).toMatchObject({ go: true, at: AT.now + 300 });
  });

  it("time that nobody used is not saved up", () => {
    const { state } = askLane(EMPTY_LANE, tenASecond, wishes("a"), AT);
    const { answers } = askLane(state, tenASecond, wishes("b", "c"), later(60_000));
    expect(answers.map(({ at }) => at - AT.now)).toEqual([60_000, 60_100]);
  });

  it("a clock that was set back does not close the lane", () => {
    const { state } = askLane(EMPTY_LANE, tenASecond, wishes("a"), later(3_600_000));
    expect(askLane(state, tenASecond, wishes("b"), AT).answers[0]).toMatchObject({ go: true, at: AT.now });
  });
});
