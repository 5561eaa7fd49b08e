/** Slips in code that are answered with the next step. */
import { describe, expect, it, onTestFinished } from "vitest";
import { keepFor } from "./core/effect.ts";
import { changedKeyWarning } from "./core/key/definition.ts";
import { nevertwice } from "./nevertwice.ts";
import { memoryStore } from "./stores/memory.ts";

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

describe("a slip in code", () => {
  it.each([
    ["effects", "effect"],
    ["keyy", "key"],
  ])("an unknown option %s names the one that was meant", (option, meant) => {
    const options = { run: async () => 1, [option]: "x" };
    expect(() => open().action("a", options as never)).toThrow(
      new RegExp(`no option "${option}".*Did you mean ${meant}\\?`),
    );
  });

  it("a call option, too", async () => {
    const send = open().action("a", { run: async (_: { id: string }) => 1 });
    await expect(send({ id: "1" }, { scop: "s" } as never)).rejects.toThrow(/Did you mean scope\?/);
  });

  it("find() takes an object, once() a list of parts, after a number", async () => {
    const nt = open();
    await expect((async () => nt.find("m1" as never))()).rejects.toThrow(
      'find() takes an object: find({ providerId: "m1" }).',
    );
    await expect(nt.once("w", "1" as never, () => 1)).rejects.toThrow(
      'the second argument takes a list of parts, which are its key: once("w", ["1"], run)',
    );
    const send = nt.action("a", { key: ["id"], run: async (_: { id: string }) => 1 });
    await send({ id: "1" });
    const again = send.resend({ id: "1" }, { by: "ada", reason: "asked", after: "1" } as never);
    await expect(again).rejects.toThrow('after is the text "1"');
    expect(() => nt.action("a", { run: async () => 1 })).toThrow(/defined twice.*Define it once, in a module/);
  });

  it("a Date in a key field names the action and the field", async () => {
    const send = open().action("remind", { key: ["at"], run: async (_: { at: Date }) => 1 });
    await expect(send({ at: new Date() })).rejects.toThrow(/remind.*"at".*a Date/);
  });

  it("keepFor.scheduled(0) is an error", () => {
    expect(() => keepFor.scheduled(0)).toThrow(/keepFor\.scheduled\(0\): .*longer than zero/);
    expect(keepFor.scheduled("1h")).toBe(7_200_000);
  });

  it("KEY_CHANGED prints the line to add where the old fields are known", () => {
    const fields = (...names: string[]) => ({
      kind: "fields" as const,
      fields: names.map((name) => [name, null] as const),
    });
    const known = { key: fields("email", "plan"), formerly: [] };
    const now = { key: fields("email"), formerly: [] };
    expect(changedKeyWarning("welcome", known, now)).toContain('formerly: { key: ["email", "plan"] }');
  });
});
