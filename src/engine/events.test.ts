import { afterEach, describe, expect, it, vi } from "vitest";
import { Events, Warnings } from "./events.ts";

const event = { type: "in_flight", action: "a", key: "nt1_k" } as const;

describe("Events", () => {
  const said = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  afterEach(() => said.mockClear());

  it("every listener hears, until it stops listening", () => {
    const events = new Events();
    const heard: string[] = [];
    const stop = events.on(() => heard.push("one"));
    events.on(() => heard.push("two"));
    events.emit(event);
    stop();
    events.emit(event);
    expect(heard).toEqual(["one", "two", "two"]);
  });

  it("a listener that throws, now or later, harms nobody and is told", async () => {
    const events = new Events();
    let heard = 0;
    events.on(() => {
      throw new Error("a watcher's bug");
    });
    events.on(async () => {
      throw new Error("an async watcher's bug");
    });
    events.on(() => {
      heard += 1;
    });
    events.emit(event);
    await new Promise((done) => setImmediate(done));
    expect(heard).toBe(1);
    expect(said.mock.calls.map(([message]) => message)).toEqual([
      expect.stringContaining("a watcher's bug"),
      expect.stringContaining("an async watcher's bug"),
    ]);
  });

  it("K5: a warning is said once per action and code, to onWarning and as an event", () => {
    const events = new Events();
    const heard: unknown[] = [];
    const sunk: unknown[] = [];
    events.on((one) => heard.push(one));
    const warnings = new Warnings(events, (one) => sunk.push(one));
    for (const action of ["a", "a", "b"]) warnings.warn("CALL_TIME_KEY", action, `about ${action}`);
    expect(sunk).toEqual([
      { code: "CALL_TIME_KEY", action: "a", message: "about a" },
      { code: "CALL_TIME_KEY", action: "b", message: "about b" },
    ]);
    expect(heard).toHaveLength(2);
    expect(said).not.toHaveBeenCalled();
  });

  it("K5: without onWarning it is a process warning with a code", () => {
    new Warnings(new Events()).warn("KEEP_TOO_SHORT", "a", "keep is short");
    expect(said).toHaveBeenCalledWith("keep is short", {
      type: "NevertwiceWarning",
      code: "NEVERTWICE_KEEP_TOO_SHORT",
    });
  });

  it("an onWarning that throws harms nobody", () => {
    const warnings = new Warnings(new Events(), () => {
      throw new Error("a bug");
    });
    expect(() => warnings.warn("X", "a", "m")).not.toThrow();
    expect(said).toHaveBeenCalledWith(expect.stringContaining("onWarning"), expect.anything());
  });

  it("what is remembered as said is bounded", () => {
    const sunk: unknown[] = [];
    const warnings = new Warnings(new Events(), (one) => sunk.push(one));
    for (let i = 0; i < 2_000; i += 1) warnings.warn("X", `action ${i}`, "m");
    expect(sunk).toHaveLength(1_000);
  });
});
