import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  canCompare,
  type DigestKey,
  differing,
  differingKnown,
  digestKeyId,
  fingerprintInPart,
  isComparable,
  isInPart,
  isLone,
  loneFingerprint,
  printInput,
  toFingerprint,
} from "./fingerprint.ts";

const input = { leadId: "l1", amount: 5, body: "Hello" };
const none = { guarded: [], free: [] };
const stored = (value: unknown, free: readonly string[] = ["body"]) => toFingerprint(printInput(value, free));
const compare = (a: unknown, b: unknown, free: readonly string[] = ["body"]) =>
  differing(stored(a, free), printInput(b, free), free);

describe("the fingerprint of an input", () => {
  it("has a digest of the first 12 bytes for each field", () => {
    const expected = createHash("sha256").update('"l1"').digest().subarray(0, 12).toString("base64url");
    expect(stored(input).fields).toEqual({ amount: expect.any(String), body: expect.any(String), leadId: expected });
  });

  it("K3 tells a changed body apart from a changed intent", () => {
    expect(compare(input, { ...input })).toEqual(none);
    expect(compare(input, { ...input, body: "Hi" })).toEqual({ guarded: [], free: ["body"] });
    expect(compare(input, { ...input, amount: 6, body: "Hi" })).toEqual({ guarded: ["amount"], free: ["body"] });
  });

  it("names fields that came or went, in order", () => {
    expect(compare(input, { leadId: "l1", z: 1, a: 2 })).toEqual({ guarded: ["a", "amount", "z"], free: ["body"] });
  });

  it("K1 does not depend on field order, on Date or ISO string, nor on undefined fields", () => {
    const at = new Date("2026-01-15T09:35:00Z");
    expect(compare({ at, id: 1 }, { id: 1, at: at.toISOString(), note: undefined })).toEqual(none);
  });

  it("survives a free list that changed between releases", () => {
    const before = stored(input, []);
    expect(differing(before, printInput(input, ["body"]), ["body"])).toEqual(none);
    expect(differing(before, printInput({ ...input, body: "Hi" }, ["body"]), ["body"])).toEqual({
      guarded: [],
      free: ["body"],
    });
    const after = stored(input, ["body"]);
    expect(differing(after, printInput({ ...input, body: "Hi" }, []), [])).toEqual({ guarded: ["body"], free: [] });
  });

  it("has no free digest when no free field is there", () => {
    expect(printInput({ a: 1 }, ["body"]).free).toBeNull();
    expect(printInput({ a: 1, body: "x" }, ["body"]).free).toEqual(expect.any(String));
  });

  it("reports an input that is no object as (input)", () => {
    expect(Object.keys(stored("a").fields)).toEqual([""]);
    expect(compare("a", "a")).toEqual(none);
    expect(compare("a", "b")).toEqual({ guarded: ["(input)"], free: [] });
    expect(compare([1], [2])).toEqual({ guarded: ["(input)"], free: [] });
    expect(compare(new Date(0), new Date(0).toISOString())).toEqual(none);
  });

  it("takes no input at all, and null", () => {
    expect(stored(undefined).fields).toEqual({});
    expect(compare(undefined, undefined)).toEqual(none);
    expect(compare(undefined, null)).toEqual({ guarded: ["(input)"], free: [] });
  });

  it("takes free fields that cannot be compared, as the constant ?", () => {
    for (const body of [() => 1, 5n, new ReadableStream(), new Map(), Symbol("x")]) {
      expect(stored({ id: 1, body }).fields.body).toBe("?");
      expect(compare({ id: 1, body }, { id: 1, body: 6n })).toEqual(none);
    }
    expect(compare({ id: 1, body: 5n }, { id: 1, body: "text" })).toEqual({ guarded: [], free: ["body"] });
  });

  it("refuses guarded fields that cannot be compared with INVALID_INPUT and their path", () => {
    const run = () => printInput({ order: { lines: [{ n: 5n }] } }, ["body"]);
    expect(run).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
    expect(run).toThrow(/^input\.order\.lines\[0\]\.n: a BigInt has no JSON form/);
    expect(() => printInput(new Map(), [])).toThrow(/^input: an instance of Map/);
    expect(() => printInput(() => 1, [])).toThrow(/^input: a function/);
  });

  it("keeps a field named __proto__ through JSON", () => {
    const odd = JSON.parse('{"__proto__":1,"a":2}') as object;
    const kept = JSON.parse(JSON.stringify(stored(odd))) as ReturnType<typeof stored>;
    expect(Object.keys(kept.fields)).toEqual(["__proto__", "a"]);
    expect(differing(kept, printInput(odd, []), [])).toEqual(none);
    expect(differing(kept, printInput({ a: 2 }, []), [])).toEqual({ guarded: ["__proto__"], free: [] });
  });

  it("is taken when it is printed: a later change of the input does not reach it", () => {
    const live = { id: 1, list: [1] };
    const print = printInput(live, []);
    live.list.push(2);
    expect(print.fields()).toEqual(stored({ id: 1, list: [1] }).fields);
    expect(print.fields()).toBe(print.fields());
  });

  it("K6 cannot be guessed when there is a secret", () => {
    const secret = "0123456789abcdef";
    expect(printInput(input, [], secret).guarded).not.toBe(printInput(input, []).guarded);
    expect(printInput(input, [], secret).fields()).not.toEqual(printInput(input, []).fields());
  });
});

describe("the fingerprint of a lone field", () => {
  it.each([{ id: "a" }, { "": 1 }, { "a:b": 1 }, { __proto__x: 1 }, JSON.parse('{"__proto__":1}'), { 0: "x" }, "text"])(
    "is all in its guarded digest: %j",
    (value) => {
      const fingerprint = stored(value, []);
      expect(isLone(fingerprint)).toBe(true);
      const again = loneFingerprint(fingerprint.guarded);
      expect(again).toEqual(fingerprint);
      expect(Object.entries(again.fields)).toEqual(Object.entries(fingerprint.fields));
    },
  );

  it.each([
    ["two fields", stored({ a: 1, b: 2 }, [])],
    ["none", stored(undefined, [])],
    ["a free field", stored({ body: 1 }, ["body"])],
    ["another's name", { ...stored({ a: 1 }, []), fields: { b: stored({ a: 1 }, []).fields.a as string } }],
    ["another's digest", { ...stored({ a: 1 }, []), fields: { a: stored({ a: 2 }, []).fields.a as string } }],
    ["no digest of ours", { guarded: "x:a", free: null, fields: { a: "x" } }],
    ["a digest with a quote", { guarded: '"23456789012345":a', free: null, fields: { a: '"23456789012345"' } }],
  ] as const)("is not that of %s", (_, fingerprint) => {
    expect(isLone(fingerprint)).toBe(false);
  });

  it("is made of no other text", () => {
    for (const text of ["", "x", "[1]", "abcdefghijklmnop", "xabcdefghijklmnop:id", "abcdefghijklmn.p:id"])
      expect(() => loneFingerprint(text)).toThrow("not the digest of a lone field");
  });

  it("leads back to itself, whatever the field is called", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.jsonValue(), (name, value) => {
        const fingerprint = stored({ [name]: value }, []);
        expect(isLone(fingerprint)).toBe(true);
        expect(loneFingerprint(fingerprint.guarded)).toEqual(fingerprint);
      }),
    );
  });
});

describe("digests beside sealed payloads", () => {
  const digestKey = (id: string): DigestKey => ({ id, secret: new Uint8Array(32).fill(id.charCodeAt(0)) });
  const [first, second] = [digestKey("aaaaaaaa"), digestKey("bbbbbbbb")];
  const keyed = (value: unknown, keys: readonly DigestKey[], intent = "nt1_x", free: readonly string[] = ["body"]) =>
    printInput(value, free, undefined, { keys, intent });

  it("hold no digest that anybody can compute, and do not show that two records have the same value", () => {
    const [plain, a, b] = [
      stored({ pin: "1234", body: 1 }),
      toFingerprint(keyed({ pin: "1234", body: 1 }, [first])),
      toFingerprint(keyed({ pin: "1234", body: 1 }, [first], "nt1_y")),
    ];
    const digests = (of: typeof a) => [...Object.values(of.fields), of.guarded.split(".").at(-1), of.free];
    expect(new Set([...digests(plain), ...digests(a), ...digests(b)]).size).toBe(12);
    expect(new Set(Object.values(keyed({ a: 1, b: 1 }, [first]).fields())).size).toBe(2);
  });

  it("name the key they were made with, so that a repeat after a rotation is the same input", () => {
    const before = toFingerprint(keyed(input, [first]));
    expect(digestKeyId(before)).toBe("aaaaaaaa");
    expect(digestKeyId(stored(input))).toBeNull();
    const rotated = (value: unknown) => keyed(value, [second, first]);
    expect(differing(before, rotated(input), ["body"])).toEqual(none);
    expect(differing(before, rotated({ ...input, body: "Hi" }), ["body"])).toEqual({ guarded: [], free: ["body"] });
    expect(differing(before, rotated({ other: 1 }), ["body"]).guarded).toContain("other");
  });

  it("are compared with digests from before encryption was switched on", () => {
    const secret = "0123456789abcdef";
    for (const value of [input, { id: 1 }, undefined, "text"]) {
      const before = toFingerprint(printInput(value, ["body"], secret));
      const now = printInput(value, ["body"], secret, { keys: [first], intent: "nt1_x" });
      expect(differing(before, now, ["body"])).toEqual(none);
    }
  });

  it("cannot be compared without their key, and the error says which key is missing", () => {
    const before = toFingerprint(keyed(input, [first]));
    for (const print of [keyed(input, [second]), printInput(input, ["body"])]) {
      expect(canCompare(before, print)).toBe(false);
      expect(() => differing(before, print, ["body"])).toThrow(/encryption key aaaaaaaa, which is not given/);
    }
  });

  it("are never taken for the fingerprint of a lone field", () => {
    expect(isLone(toFingerprint(keyed({ id: 1 }, [first])))).toBe(false);
  });
});

describe("D8: an input that is known in part", () => {
  const keyed = { keys: [{ id: "0a1b2c3d", secret: new Uint8Array(32).fill(7) }], intent: "nt1_x" };
  it.each([
    ["plain", undefined],
    ["keyed", keyed],
  ])("only what both know is compared, %s", (_, keys) => {
    const print = (input: unknown) => printInput(input, ["body"], undefined, keys);
    const stored = fingerprintInPart(print({ lead: 7, body: "Hello" }));
    expect(isInPart(stored)).toBe(true);
    expect(isComparable(stored)).toBe(false);
    expect(differing(stored, print({ lead: 7, to: "ana" }), ["body"])).toEqual({ guarded: [], free: [] });
    expect(differing(stored, print({ lead: 8, body: "Hi" }), ["body"])).toEqual({ guarded: ["lead"], free: ["body"] });
    expect(differing(fingerprintInPart(print(undefined)), print({ lead: 8 }), [])).toEqual({ guarded: [], free: [] });
    const whole = toFingerprint(print({ lead: 7, to: "ana" }));
    expect(isInPart(whole)).toBe(false);
    expect(differingKnown(whole, print({ lead: 7 }), [])).toEqual({ guarded: [], free: [] });
    expect(differing(whole, print({ lead: 7 }), []).guarded).toEqual(["to"]);
  });

  it("a lone field whose name ends like the mark is not taken for one", () => {
    expect(isInPart(toFingerprint(printInput({ "*": 7 }, [])))).toBe(false);
    expect(isInPart(toFingerprint(printInput({ "a.*": 7 }, [])))).toBe(false);
  });
});
