import { describe, expect, test } from "vitest";
import { fromStoredError, toStoredError } from "./stored-error.ts";

describe("toStoredError", () => {
  test("keeps name, message and code, and nothing else", () => {
    const error = Object.assign(new TypeError("no"), { code: "E_NO", response: { body: "private" } });
    expect(toStoredError(error)).toEqual({ name: "TypeError", message: "no", code: "E_NO" });
  });

  test.each<[unknown, object]>([
    [new Error("plain"), { name: "Error", message: "plain" }],
    [Object.assign(new Error("n"), { code: 404 }), { name: "Error", message: "n", code: "404" }],
    [Object.assign(new Error("o"), { code: { deep: 1 } }), { name: "Error", message: "o" }],
    [new Error(""), { name: "Error", message: "" }],
    ["text", { name: "Error", message: "text" }],
    [42, { name: "Error", message: "42" }],
    [null, { name: "Error", message: "null" }],
    [undefined, { name: "Error", message: "undefined" }],
    [
      { name: "Odd", message: "shape" },
      { name: "Odd", message: "shape" },
    ],
    [{ reason: 1 }, { name: "Error", message: '{"reason":1}' }],
    [
      { name: 5, message: {} },
      { name: "Error", message: '{"name":5,"message":{}}' },
    ],
  ])("%o", (error, expected) => {
    expect(toStoredError(error)).toEqual(expected);
  });

  test("caps the message at 500 characters and leaves no half character", () => {
    const stored = toStoredError(new Error(`${"x".repeat(498)}😀${"y".repeat(500)}`));
    expect(stored.message).toHaveLength(500);
    expect(stored.message.endsWith("x\ufffd…")).toBe(true);
    expect(toStoredError(new Error("x".repeat(500))).message).toBe("x".repeat(500));
  });

  test("caps names and codes too", () => {
    const stored = toStoredError(Object.assign(new Error("x"), { name: "N".repeat(999), code: "C".repeat(999) }));
    expect([stored.name.length, stored.code?.length]).toEqual([100, 100]);
  });

  test("takes secrets out of the name and the code too", () => {
    const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    const stored = toStoredError({ name: `Bad${"x".repeat(95)} ${token}`, code: token, message: `no: ${token}` });
    expect(JSON.stringify(stored)).not.toContain("ghp_");
    expect(stored.code).toBe("…");
    expect(toStoredError({ code: "postgres://ana:hunter2@h/app" }).code).toBe("postgres://…@h/app");
  });

  test("replaces what a store may refuse, and keeps whole characters", () => {
    expect(toStoredError(new Error("a\0b\ud800c\udc00d😀")).message).toBe("a\ufffdb\ufffdc\ufffdd😀");
  });

  test("getters that throw, and objects that cannot be printed, do not crash it", () => {
    const trap = () => {
      throw new Error("trap");
    };
    const hostile = new Proxy({}, { get: trap, getPrototypeOf: trap, ownKeys: trap });
    expect(toStoredError(hostile)).toEqual({ name: "Error", message: "an error that cannot be read" });
    const bare = Object.assign(Object.create(null), { big: 1n });
    expect(toStoredError(bare).message).toBe("an error that cannot be read");
  });
});

describe("fromStoredError", () => {
  test("reads like the error that was stored", () => {
    const error = fromStoredError({ name: "StripeCardError", message: "declined", code: "card_declined" });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: "StripeCardError", message: "declined", code: "card_declined" });
    expect(String(error)).toBe("StripeCardError: declined");
    expect(Object.keys(error)).toEqual(["code"]);
  });

  test("has no code where there was none", () => {
    expect("code" in fromStoredError({ name: "Error", message: "x" })).toBe(false);
  });

  test("a round trip changes nothing", () => {
    const stored = { name: "A", message: "b", code: "c" };
    expect(toStoredError(fromStoredError(stored))).toEqual(stored);
  });
});
