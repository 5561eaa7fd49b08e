import { describe, expect, it } from "vitest";
import { manualClock } from "../../test/support/manual-clock.ts";
import { Breaker, type BreakerState } from "./breaker.ts";

function breaker() {
  const clock = manualClock();
  const states: BreakerState[] = [];
  const made = new Breaker(clock, {
    failures: 3,
    openMs: 100,
    maxOpenMs: 300,
    onChange: (state) => states.push(state),
  });
  const fail = (times: number) => {
    for (let i = 0; i < times; i += 1) made.failed(new Error(`failure ${i}`));
  };
  return { made, clock, states, fail };
}

describe("O10 Breaker", () => {
  it("opens after failures in a row, not after failures with a success between", () => {
    const { made, states, fail } = breaker();
    fail(2);
    made.succeeded();
    fail(2);
    expect(made.allows()).toBe(true);
    fail(1);
    expect({ state: made.state, allows: made.allows(), states }).toEqual({
      state: "open",
      allows: false,
      states: ["open"],
    });
  });

  it("after its pause one caller is let through, the others are not", async () => {
    const { made, clock, fail } = breaker();
    fail(3);
    await clock.advance(100);
    expect([made.allows(), made.allows(), made.allows()]).toEqual([true, false, false]);
    expect(made.state).toBe("half-open");
  });

  it("a trial that succeeds closes it, one that fails doubles the pause up to its bound", async () => {
    const { made, clock, fail } = breaker();
    fail(3);
    for (const pause of [100, 200, 300, 300]) {
      await clock.advance(pause - 1);
      expect(made.allows()).toBe(false);
      await clock.advance(1);
      expect(made.allows()).toBe(true);
      fail(1);
    }
    await clock.advance(300);
    made.allows();
    made.succeeded();
    expect(made.state).toBe("closed");
    fail(3);
    await clock.advance(100);
    expect(made.allows()).toBe(true);
  });

  it("a trial that says nothing about the store hands the trial on: it never stays half-open for good", async () => {
    const { made, clock, states, fail } = breaker();
    fail(3);
    await clock.advance(100);
    expect(made.allows()).toBe(true);
    made.undecided();
    expect(made.allows()).toBe(true);
    made.succeeded();
    expect(states).toEqual(["open", "half-open", "half-open", "closed"]);
  });

  it("tells the last error, for messages", () => {
    const { made, fail } = breaker();
    fail(3);
    expect(made.lastError).toEqual(new Error("failure 2"));
  });
});
