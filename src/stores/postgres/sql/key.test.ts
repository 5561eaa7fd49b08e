import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deriveKey, keyBytes } from "../../../core/key/key.ts";
import { keyFromHex, keyHex, keyRange } from "./key.ts";

const derived = fc
  .integer({ min: 1 })
  .map((n) => deriveKey({ tenant: "", action: "a", version: 1, scope: null, parts: [n] }));

describe("keys as bytes", () => {
  it("a real key is its digest, and comes back", () => {
    fc.assert(
      fc.property(derived, (key) => {
        expect(keyHex(key)).toBe(Buffer.from(keyBytes(key)).toString("hex"));
        expect(keyFromHex(keyHex(key))).toBe(key);
      }),
    );
  });

  it("any other text comes back too, and is never taken for a digest", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 60 }).filter((s) => !s.includes("\0"));
    const near = fc.constantFrom(
      `nt1_${"0".repeat(51)}1`,
      `nt1_${"z".repeat(52)}`,
      "a".repeat(31),
      "a".repeat(30),
      "é".repeat(28),
    );
    fc.assert(
      fc.property(fc.oneof(text, near), (key) => {
        expect(keyHex(key)).not.toHaveLength(64);
        expect(keyFromHex(keyHex(key))).toBe(key);
      }),
    );
  });

  it("the beginning of a key is a range of digests", () => {
    fc.assert(
      fc.property(derived, derived, fc.integer({ min: 0, max: 56 }), (key, other, length) => {
        const { digests } = keyRange(key.slice(0, length));
        const within = (hex: string) => digests !== null && digests.low <= hex && hex <= digests.high;
        expect(within(keyHex(key))).toBe(true);
        expect(within(keyHex(other))).toBe(other.startsWith(key.slice(0, length)));
      }),
    );
  });
});
