import { describe, expect, it } from "vitest";
import { manualClock } from "../../test/support/manual-clock.ts";
import { printInput } from "../core/key/fingerprint.ts";
import { Flights } from "./flights.ts";

const print = printInput({ a: 1 }, []);
const done = { status: "done", key: "k", result: 1, replayed: false, attempt: 1, at: 0 } as const;
const turn = () => new Promise((next) => setImmediate(next));

describe("Flights", () => {
  it("a flight is there while it flies, and gone when it has landed or crashed", () => {
    const flights = new Flights();
    const first = flights.start("k", print);
    expect(flights.get("k")?.fingerprint().guarded).toBe(print.guarded);
    flights.land(first, done);
    expect(flights.get("k")).toBeUndefined();
    flights.crash(flights.start("k", print), new Error("crash"));
    expect(flights.get("k")).toBeUndefined();
  });

  it("who joins gets its outcome or its error, or null when patience ends first", async () => {
    const flights = new Flights();
    const clock = manualClock();
    const flight = flights.start("k", print);
    const patient = flight.join(clock, 1_000);
    const impatient = flight.join(clock, 10);
    await clock.advance(10);
    expect(await impatient).toBeNull();
    flights.crash(flight, new Error("crash"));
    await expect(patient).rejects.toThrow("crash");
    const second = flights.start("k", print);
    const joined = [second.join(clock, 1_000), second.join(clock, 1_000)];
    flights.land(second, done);
    expect(await Promise.all(joined)).toEqual([done, done]);
    expect(clock.timers).toBe(0);
  });

  it("who joins hears of it when the key is free again", async () => {
    const flights = new Flights();
    const flight = flights.start("k", print);
    const seen = flight.join(manualClock(), 1_000).then(() => flights.get("k"));
    flights.land(flight, done);
    expect(await seen).toBeUndefined();
  });

  it("idle waits for all that fly, and for what took off meanwhile", async () => {
    const flights = new Flights();
    const first = flights.start("1", print);
    let idle = false;
    const waiting = flights.idle().then(() => {
      idle = true;
    });
    const second = flights.start("2", print);
    flights.land(first, done);
    await turn();
    expect(idle).toBe(false);
    flights.crash(second, new Error("crash"));
    await waiting;
    expect(idle).toBe(true);
  });

  it("a second flight of a key does not make the first one's landing its own", () => {
    const flights = new Flights();
    const first = flights.start("k", print);
    const second = flights.start("k", print);
    flights.land(first, done);
    expect(flights.get("k")).toBe(second);
    flights.land(second, done);
    expect(flights.get("k")).toBeUndefined();
  });
});
