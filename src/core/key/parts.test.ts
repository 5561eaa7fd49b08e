import { describe, expect, it } from "vitest";
import { deriveKey } from "./key.ts";
import { type KeyOption, keyParts } from "./parts.ts";

const keyOf = (parts: readonly unknown[]) => deriveKey({ tenant: "", action: "send", version: 1, scope: null, parts });

describe("the parts of an input", () => {
  it("K3 are the values of the named fields, in order", () => {
    expect(keyParts(["template", "leadId"], { leadId: 7, template: "intro", body: "…" }, ["body"], "send")).toEqual([
      "intro",
      7,
    ]);
  });

  it("K3 are what a key function returns", () => {
    expect(keyParts((i: { id: string }) => [i.id, "x"], { id: "a" }, [], "send")).toEqual(["a", "x"]);
  });

  it("K3 are the input without its free fields when there is no key", () => {
    const first = keyParts(undefined, { b: 1, a: 2, body: "Hello" }, ["body"], "send");
    expect(first).toEqual([{ a: 2, b: 1 }]);
    expect(keyOf(first)).toBe(keyOf(keyParts(undefined, { a: 2, body: "Hi!", b: 1 }, ["body"], "send")));
  });

  it("K1 without a key a Date is its ISO string and an undefined field is absent", () => {
    const at = new Date("2026-01-15T09:35:00Z");
    const parts = keyParts(undefined, { id: 1, at, note: undefined }, [], "send");
    expect(parts).toEqual([{ id: 1, at: "2026-01-15T09:35:00.000Z" }]);
    expect(keyOf(parts)).toBe(keyOf([{ at: "2026-01-15T09:35:00.000Z", id: 1 }]));
  });

  it("without a key an input larger than a part may be is still a key", () => {
    const file = { path: "a.txt", content: "x".repeat(200_000) };
    const same = { content: "x".repeat(200_000), path: "a.txt" };
    const other = { ...same, path: "b.txt" };
    expect(keyOf(keyParts(undefined, file, [], "write"))).toBe(keyOf(keyParts(undefined, same, [], "write")));
    expect(keyOf(keyParts(undefined, file, [], "write"))).not.toBe(keyOf(keyParts(undefined, other, [], "write")));
  });

  it("without a key a free field is not even read", () => {
    expect(keyParts(undefined, { id: 1, stream: new ReadableStream() }, ["stream"], "send")).toEqual([{ id: 1 }]);
  });

  it("a scalar input is the part itself", () => {
    expect(keyParts(undefined, "lead-1", [], "send")).toEqual(["lead-1"]);
    expect(keyParts(undefined, 7, [], "send")).toEqual([7]);
    expect(keyParts(undefined, ["a"], [], "send")).toEqual([["a"]]);
  });

  it("keeps a field named __proto__", () => {
    const input = JSON.parse('{"__proto__":"x","a":1}') as object;
    expect(keyOf(keyParts(undefined, input, [], "send"))).not.toBe(keyOf([{ a: 1 }]));
    expect(() => keyParts(["__proto__"] as unknown as KeyOption<object>, { a: 1 }, [], "send")).toThrow(
      /no field "__proto__"/,
    );
  });
});

describe("what parts are refused", () => {
  const boom = () => {
    throw new TypeError("anna@example.com is not a lead");
  };
  const refusals: readonly [name: string, option: unknown, input: unknown, free: readonly string[], message: RegExp][] =
    [
      [
        "no key and no input",
        undefined,
        undefined,
        [],
        /^action "send": there is no `key` and the input is undefined\. Every such call/,
      ],
      ["no key and null", undefined, null, [], /the input is null\./],
      ["no key and an empty object", undefined, {}, [], /the input is an empty object\./],
      [
        "no key and only free fields",
        undefined,
        { body: "x" },
        ["body"],
        /the input is an empty object without its free fields\./,
      ],
      ["no key and only undefined fields", undefined, { a: undefined }, [], /the input is an empty object\./],
      ["no key and a blank string", undefined, " ", [], /the input is a blank string\./],
      ["a list without names", [], { a: 1 }, [], /`key` names no field\. Every call would share one key/],
      [
        "a missing field",
        ["a", "b"],
        { a: 1 },
        [],
        /^action "send": the input has no field "b", which `key` names\. Pass it/,
      ],
      ["an undefined field", ["a"], { a: undefined }, [], /the input has no field "a"/],
      ["an inherited field", ["toString"], {}, [], /the input has no field "toString"/],
      [
        "a null field",
        ["a"],
        { a: null },
        [],
        /^action "send", key field "a": the part is null\. An empty part would make/,
      ],
      ["a blank field", ["a"], { a: "  " }, [], /key field "a": the part is a blank string/],
      ["a getter", ["a"], Object.defineProperty({}, "a", { get: () => 1 }), [], /the field "a" is a getter/],
      ["a list for a scalar input", ["a"], "text", [], /`key` names fields, but the input is not an object/],
      ["an option of another kind", "leadId", { leadId: 1 }, [], /`key` must be a list of field names or a function/],
      ["a function that returns a string", () => "lead-1", {}, [], /the key function returned a string, not an array/],
      ["a function that returns nothing", () => {}, {}, [], /the key function returned undefined, not an array/],
      ["an async function", async () => ["a"], {}, [], /the key function is async\. .*pass it in the input/],
      ["an async function that rejects", async () => boom(), {}, [], /the key function is async/],
      ["a function that throws", boom, {}, [], /^action "send": the key function threw an error \(see cause\)/],
    ];

  it.each(refusals)("refuses %s", (_, option, input, free, message) => {
    const run = () => keyParts(option as KeyOption<unknown>, input, free, "send");
    expect(run).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
    expect(run).toThrow(message);
  });

  it("K6 keeps what a key function threw as the cause, and out of the message", () => {
    try {
      keyParts(boom, {}, [], "send");
      expect.unreachable();
    } catch (error) {
      expect((error as Error).cause).toBeInstanceOf(TypeError);
      expect((error as Error).message).not.toContain("anna");
    }
  });

  it("refuses an input that cannot be compared with INVALID_INPUT and its path", () => {
    expect(() => keyParts(undefined, { a: { n: 1n } }, [], "send")).toThrow(/^input\.a\.n: a BigInt/);
  });
});
