import { describe, expect, it } from "vitest";
import { gate } from "../../test/support/gate.ts";
import { manualClock } from "../../test/support/manual-clock.ts";
import { printInput } from "../core/fingerprint.ts";
import type { Outcome } from "../core/outcome.ts";
import { Flights } from "./flights.ts";

const print = printInput({ a: 1 }, []);
const done = { status: "done", key: "k", result: 1, replayed: false, attempt: 1, at: 0 } as const;

describe("Flights", () => {
  it("a flight is there while it flies, and gone when it has landed or crashed", async () => {
    const flights = new Flights();
    const landing = gate<Outcome<unknown>>();
    const first = flights.start("k", print, () => landing.opened);
    expect(flights.get("k")?.fingerprint().guarded).toBe(print.guarded);
    landing.open(done);
    expect(await first).toBe(done);
    expect(flights.get("k")).toBeUndefined();
    await expect(flights.start("k", print, () => Promise.reject(new Error("crash")))).rejects.toThrow("crash");
    expect(flights.get("k")).toBeUndefined();
  });

  it("who joins gets its outcome or its error, or null when patience ends first", async () => {
    const flights = new Flights();
    const clock = manualClock();
    const landing = gate<Outcome<unknown>>();
    const flight = flights.start("k", print, () => landing.opened);
    const patient = flights.get("k")?.join(clock, 1_000);
    const impatient = flights.get("k")?.join(clock, 10);
    await clock.advance(10);
    expect(await impatient).toBeNull();
    landing.fail(new Error("crash"));
    await expect(patient).rejects.toThrow("crash");
    await expect(flight).rejects.toThrow("crash");
    expect(clock.timers).toBe(0);
  });

  it("idle waits for all that fly, and for what took off meanwhile", async () => {
    const flights = new Flights();
    const [one, two] = [gate<Outcome<unknown>>(), gate<Outcome<unknown>>()];
    const first = flights.start("1", print, () => one.opened);
    void first.then(() => flights.start("2", print, () => two.opened));
    let idle = false;
    const waiting = flights.idle().then(() => {
      idle = true;
    });
    one.open(done);
    await first;
    await new Promise((next) => setImmediate(next));
    expect(idle).toBe(false);
    two.open(done);
    await waiting;
    expect(idle).toBe(true);
  });

  it("a second flight of a key does not make the first one's landing its own", async () => {
    const flights = new Flights();
    const [one, two] = [gate<Outcome<unknown>>(), gate<Outcome<unknown>>()];
    const first = flights.start("k", print, () => one.opened);
    void flights.start("k", print, () => two.opened);
    one.open(done);
    await first;
    expect(flights.get("k")).toBeDefined();
    two.open(done);
    await flights.idle();
    expect(flights.get("k")).toBeUndefined();
  });
});
