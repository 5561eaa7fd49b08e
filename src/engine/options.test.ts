import { type ActionOptions, type NevertwiceOptions, nevertwice } from "nevertwice";
import { describe, expect, it } from "vitest";
import { openMemory } from "../../test/support/each-store.ts";

const run = async () => 1;

describe("a bad option is refused where it is given, and the message says what it takes", () => {
  const action: [options: object, message: RegExp][] = [
    [{}, /run is missing/],
    [{ run: "send" }, /run is missing/],
    [{ run, keyy: ["a"] }, /no option "keyy".*The options are: input, key/],
    [{ run, errors: "not-done" }, /an option of a guarded tool.*classify/],
    [{ run, input: {} }, /not a Standard Schema/],
    [{ run, key: "to" }, /list of field names/],
    [{ run, key: [""] }, /list of field names/],
    [{ run, free: "body" }, /free takes a list/],
    [{ run, key: ["a", "b"], free: ["b"] }, /b cannot be in key and in free/],
    [{ run, mark: "later" }, /mark takes "auto" or "manual"/],
    [{ run, prepare: 1 }, /prepare must be a function/],
    [{ run, prepare: run, mark: "manual" }, /two ways to say the same/],
    [{ run, classify: "doubt" }, /classify must be a function/],
    [{ run, keep: "a week" }, /keep: "a week" is not a duration/],
    [{ run, keep: 0 }, /nothing would be guarded/],
    [{ run, lease: "1ms" }, /shortest that heartbeats can keep/],
    [{ run, lease: "10s", timeout: "20s" }, /no longer than lease/],
    [{ run, timeout: 0 }, /must be above zero/],
    [{ run, wait: -1 }, /wait: -1 is not a duration/],
    [{ run, doubt: "guess" }, /it takes "hold", "retry"/],
    [{ run, doubt: {} }, /it takes "hold", "retry"/],
    [{ run, doubt: { probe: () => "done" } }, /needs quietFor/],
    [{ run, doubt: { probe: 1, quietFor: "1s" } }, /doubt.probe must be a function/],
    [{ run, retry: { attempts: 0 } }, /whole number from 1/],
    [{ run, retry: { attempts: 1.5 } }, /whole number from 1/],
    [{ run, whenStoreDown: "panic" }, /takes "refuse" or "run"/],
  ];

  it.each(action)("action(%o)", (options, message) => {
    const { nt } = openMemory();
    const define = () => nt.action("send", options as ActionOptions<object, number>);
    expect(define).toThrow(message);
    expect(define).toThrow(expect.objectContaining({ code: "CONFIG" }));
  });

  it("an action's name", () => {
    const { nt } = openMemory();
    for (const name of ["", "  ", "x".repeat(201), 5 as unknown as string]) {
      expect(() => nt.action(name, { run })).toThrow(/name must be a string of 1 to 200/);
    }
  });

  it("a call's options, and nothing is run", async () => {
    const { nt } = openMemory();
    let runs = 0;
    const send = nt.action("send", { run: async (_i: { id: number }) => ++runs });
    await expect(send({ id: 1 }, { scoped: "x" } as object)).rejects.toThrow(/no call option "scoped".*scope, version/);
    await expect(send({ id: 1 }, { wait: "soon" })).rejects.toThrow(/wait: "soon" is not a duration/);
    for (const bad of [{ version: 0 }, { version: 1.5 }, { scope: " " }, { tenant: " " }]) {
      await expect(send({ id: 1 }, bad)).rejects.toMatchObject({ code: "INVALID_KEY" });
    }
    expect(runs).toBe(0);
  });

  it("nevertwice()'s own options", () => {
    const bad: [object, RegExp][] = [
      [{ stores: "memory:" }, /no option "stores"/],
      [{ store: 5 }, /neither a string nor a store/],
      [{ store: {} }, /neither a string nor a store/],
      [{ store: "memory:", tenant: " " }, /tenant is " "/],
      [{ store: "memory:", sweep: "often" }, /sweep: "often" is not a duration/],
    ];
    for (const [options, message] of bad) expect(() => nevertwice(options as NevertwiceOptions)).toThrow(message);
  });
});
