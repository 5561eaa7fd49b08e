import { createHash, createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { base32hex, deriveKey, isKey, type KeyIdentity, keyBytes, keyText } from "./key.ts";

const base: KeyIdentity = { tenant: "", action: "send", version: 1, scope: null, parts: ["lead-1", "intro"] };
const key = (change: Partial<KeyIdentity>) => deriveKey({ ...base, ...change });

describe("a key", () => {
  it("K1 is the digest of the canonical list, as 56 characters", () => {
    const text = '["nt1","","send",1,null,"lead-1","intro"]';
    expect(keyText(base)).toBe(text);
    expect(key({})).toMatch(/^nt1_[0-9a-v]{52}$/);
    expect(Buffer.from(keyBytes(key({})))).toEqual(createHash("sha256").update(text).digest());
    expect(isKey(key({}))).toBe(true);
  });

  it("K1 does not depend on the order of arguments", () => {
    expect(key({ parts: [{ to: "a", cc: ["b"] }] })).toBe(key({ parts: [{ cc: ["b"], to: "a" }] }));
  });

  it("K2 changes with tenant, action, version and scope", () => {
    const keys = [{}, { tenant: "acme" }, { action: "sent" }, { version: 2 }, { scope: "run-1" }].map(key);
    expect(new Set(keys).size).toBe(5);
  });

  it("K2 keeps the places apart: a scope is no part and a tenant is no action", () => {
    expect(key({ scope: "x", parts: ["y"] })).not.toBe(key({ parts: ["x", "y"] }));
    expect(key({ tenant: "a", action: "b" })).not.toBe(key({ tenant: "b", action: "a" }));
  });

  it("never joins parts with a separator", () => {
    expect(key({ parts: ["a:b", "c"] })).not.toBe(key({ parts: ["a", "b:c"] }));
    expect(key({ parts: ["a", "b"] })).not.toBe(key({ parts: [["a", "b"]] }));
    expect(key({ parts: ["1"] })).not.toBe(key({ parts: [1] }));
    expect(key({ parts: ['a","b'] })).not.toBe(key({ parts: ["a", "b"] }));
  });

  it("K6 cannot be guessed when there is a secret", () => {
    const secret = "0123456789abcdef";
    expect(key({ secret })).not.toBe(key({}));
    expect(key({ secret })).toBe(key({ secret: Buffer.from(secret) }));
    expect(key({ secret })).not.toBe(key({ secret: "0123456789abcdeg" }));
    expect(Buffer.from(keyBytes(key({ secret })))).toEqual(createHmac("sha256", secret).update(keyText(base)).digest());
  });

  it("takes null, false, 0 and empty strings inside a part, and false and 0 as parts", () => {
    expect(() => key({ parts: [{ a: null, b: "" }, [null], 0, false] })).not.toThrow();
  });

  it("property: distinct part lists give distinct keys", () => {
    const part = fc.oneof(
      fc.string({ minLength: 1 }).filter((s) => s.trim() !== "" && /[!-~]/.test(s[0] as string)),
      fc.integer(),
      fc.boolean(),
      fc.array(fc.string(), { minLength: 1, maxLength: 3 }),
    );
    const list = fc.array(part, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(list, list, (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b);
        expect(key({ parts: a }) === key({ parts: b })).toBe(same);
      }),
    );
  });
});

describe("what a key refuses", () => {
  const shared = /An empty part would make different intents share one key/;
  const refusals: readonly [name: string, change: Record<string, unknown>, message: RegExp][] = [
    ["no parts", { parts: [] }, /^key: there are no parts\. Without parts every call .* would share one key/],
    ["parts that are no array", { parts: "lead" }, /^key: there are no parts/],
    ["too many parts", { parts: new Array(65).fill("x") }, /^key: there are 65 parts and at most 64/],
    ["an undefined part", { parts: ["a", undefined] }, /^key\[1\]: the part is undefined\./],
    ["a hole", { parts: new Array(1) }, /^key\[0\]: the part is undefined\./],
    ["a null part", { parts: [null] }, /^key\[0\]: the part is null\./],
    ["an empty string", { parts: [""] }, /^key\[0\]: the part is an empty string\./],
    ["a blank string", { parts: [" \t\n"] }, /^key\[0\]: the part is a blank string\./],
    [
      "a string of no-break and zero-width spaces",
      { parts: ["\u00a0\u200b\ufeff"] },
      /^key\[0\]: the part is a blank string\./,
    ],
    ["an empty array", { parts: [[]] }, /^key\[0\]: the part is an empty array\./],
    ["an empty object", { parts: [{}] }, /^key\[0\]: the part is an empty object\./],
    ["an empty object without prototype", { parts: [Object.create(null)] }, /^key\[0\]: the part is an empty object\./],
    ["a Date", { parts: [new Date()] }, /^key\[0\]: a Date .*day\(at\)/],
    ["NaN", { parts: [Number.NaN] }, /^key\[0\]: NaN is not a finite number/],
    [
      "parts too large together",
      { parts: ["x".repeat(40_000), "y".repeat(40_000)] },
      /^key: its parts may be 65536 bytes/,
    ],
    [
      "a getter among the parts",
      { parts: Object.defineProperty(["a"], 0, { get: () => "b" }) },
      /^key\[0\]: this is a getter/,
    ],
    ["a blank tenant", { tenant: " " }, /^tenant: must be a string that is not blank/],
    ["a tenant that is no string", { tenant: 5 }, /^tenant: /],
    ["half a character in the tenant", { tenant: "\ud800" }, /^tenant: it contains half of a surrogate pair/],
    ["a blank action", { action: " " }, /^action: its name must be a string of 1 to 200 characters/],
    ["an empty action", { action: "" }, /^action: /],
    ["a long action", { action: "x".repeat(201) }, /^action: /],
    ["version 0", { version: 0 }, /^version: must be a positive whole number/],
    ["version 1.5", { version: 1.5 }, /^version: /],
    ["version 2^53", { version: 2 ** 53 }, /^version: /],
    ["an empty scope", { scope: "" }, /^scope: must be a string of 1 to 1024 characters/],
    ["a long scope", { scope: "x".repeat(1025) }, /^scope: /],
    ["an undefined scope", { scope: undefined }, /^scope: /],
  ];

  it.each(refusals)("refuses %s", (_, change, message) => {
    expect(() => key(change as Partial<KeyIdentity>)).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
    expect(() => key(change as Partial<KeyIdentity>)).toThrow(message);
  });

  it("K1 says why an empty part is refused", () => {
    for (const part of [undefined, null, "", " ", [], {}]) expect(() => key({ parts: [part] })).toThrow(shared);
  });

  it("refuses a short secret as CONFIG, and says how to make one", () => {
    for (const secret of ["", "short", new Uint8Array(15), 5 as unknown as string]) {
      expect(() => key({ secret })).toThrow(expect.objectContaining({ code: "CONFIG" }));
      expect(() => key({ secret })).toThrow(/^secret: .* at least 16 bytes.*openssl rand/);
    }
  });
});

describe("reading a key", () => {
  it("tells keys from other text", () => {
    const good = key({});
    for (const bad of [
      "",
      good.slice(1),
      `${good}0`,
      good.toUpperCase(),
      good.replace("nt1", "nt2"),
      `${good.slice(0, -1)}1`,
      `${good}\n`,
    ]) {
      expect(isKey(bad)).toBe(false);
      expect(() => keyBytes(bad)).toThrow(/^key: this is not a key of nevertwice/);
    }
    expect(isKey(undefined as unknown as string)).toBe(false);
  });

  it("property: base32hex and keyBytes are inverse, and as RFC 4648 has it", () => {
    expect(base32hex(Buffer.from("foobar"))).toBe("cpnmuoj1e8");
    expect(base32hex(Buffer.from("f"))).toBe("co");
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(keyBytes(`nt1_${base32hex(bytes)}`)).toEqual(bytes);
      }),
    );
  });
});
