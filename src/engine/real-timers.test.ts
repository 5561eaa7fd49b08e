import { afterEach, describe, expect, it, vi } from "vitest";
import { unmockedTimers } from "./unmocked-timers.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.resetModules();
});

describe.each(["before", "after"])("loaded %s the test faked the timers", (when) => {
  it("timers fire, ticks come, and the wall clock goes on", async () => {
    const real = Date.now();
    if (when === "after") vi.useFakeTimers({ now: 0 });
    vi.resetModules();
    const timers = await import("./real-timers.ts");
    if (when === "before") vi.useFakeTimers({ now: 0 });
    expect(Date.now()).toBe(0);
    await new Promise((done) => timers.setTimeout(done, 1));
    await new Promise((done) => timers.setImmediate(done));
    await new Promise<void>((done) => timers.nextTick(done));
    let ticks = 0;
    await new Promise<void>((done) => {
      const timer = timers.setInterval(() => {
        ticks += 1;
        if (ticks < 2) return;
        timers.clearInterval(timer);
        done();
      }, 1);
    });
    expect(timers.wallNow()).toBeGreaterThanOrEqual(real);
    const { signal } = timers.deadline(1);
    await new Promise((done) => signal.addEventListener("abort", done));
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
  });
});

describe("timers without those of Node", () => {
  const { setTimeout, setInterval, clearTimeout, clearInterval, setImmediate } = unmockedTimers();

  it("fire once, or again and again until they are cancelled", async () => {
    const fired: string[] = [];
    await new Promise((done) => setImmediate(() => done(fired.push("immediate"))));
    const never = setTimeout(() => fired.push("never"), 1);
    clearTimeout(never);
    await new Promise<void>((done) => {
      const timer = setInterval(() => {
        if (fired.push("interval") < 3) return;
        clearInterval(timer);
        done();
      }, 1);
    });
    await new Promise<void>((done) => {
      setTimeout(done, 0);
    });
    expect(fired).toEqual(["immediate", "interval", "interval"]);
  });
});
