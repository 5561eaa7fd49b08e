import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { NevertwiceError } from "./errors.ts";
import type { Payload } from "./record.ts";
import { type EncryptOption, type SealBinding, sealer } from "./seal.ts";

const bound: SealBinding = { tenant: "acme", key: "nt1_abc", fence: 3, field: "result" };
const key = randomBytes(32);

function errorOf(work: () => unknown): NevertwiceError {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(NevertwiceError);
    return error as NevertwiceError;
  }
  throw new Error("nothing was thrown");
}

function sealedText(payload: Payload): string {
  if (!("sealed" in payload)) throw new Error("not sealed");
  return payload.sealed;
}

const ALTERED = /was altered or belongs to another record/;

describe("seal and open", () => {
  test.each(['{"id":"re_1","n":[1,"ü😀",null,true]}', '"text"', "null", "", " [ 1 ] ", `"${"x".repeat(1_000_000)}"`])(
    "text comes back byte for byte: %.30s",
    (json) => {
      const { seal, open } = sealer(key);
      expect(open(seal({ json }, bound), bound)).toEqual({ json });
    },
  );

  test("the text has the documented form, hides the text and names the fence", () => {
    const sealed = sealedText(sealer(key).seal({ json: '"secret@example.com"' }, bound));
    expect(sealed).toMatch(/^ntseal1\.[0-9a-f]{8}\.3\.[\w-]{16}\.[\w-]+$/);
    expect(Buffer.from(sealed.split(".")[4] as string, "base64url").toString("latin1")).not.toContain("secret");
  });

  test("the same text is never sealed to the same text", () => {
    const { seal } = sealer(key);
    const texts = new Set(Array.from({ length: 200 }, () => sealedText(seal({ json: "1" }, bound))));
    expect(texts.size).toBe(200);
  });

  test("omitted and sealed payloads pass through seal, omitted ones through open", () => {
    const { seal, open } = sealer(key);
    const omitted = { omitted: "too large" };
    const sealed = seal({ json: "1" }, bound);
    expect(seal(omitted, bound)).toBe(omitted);
    expect(seal(sealed, { ...bound, fence: 9 })).toBe(sealed);
    expect(open(omitted, bound)).toBe(omitted);
  });

  test("a payload that is not sealed is refused, unless acceptPlain is said for a migration", () => {
    const plain = { json: '"from before, or forged"' };
    const error = errorOf(() => sealer(key).open(plain, bound));
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.message).toMatch(/the stored result is not sealed.*acceptPlain: true/);
    expect(error.message).not.toContain("forged");
    expect(errorOf(() => sealer({ keys: [key, randomBytes(32)] }).open(plain, bound)).message).toMatch(/not sealed/);
    expect(sealer({ keys: key, acceptPlain: true }).open(plain, bound)).toEqual(plain);
    expect(sealer({ keys: key, acceptPlain: true }).open(sealer(key).seal(plain, bound), bound)).toEqual(plain);
  });

  test("a later fence still opens what an earlier one sealed", () => {
    const { seal, open } = sealer(key);
    const sealed = seal({ json: '"draft"' }, { ...bound, fence: 1 });
    expect(open(sealed, { ...bound, fence: 7 } as SealBinding)).toEqual({ json: '"draft"' });
  });
});

describe("binding", () => {
  test.each<[string, Partial<SealBinding>]>([
    ["key", { key: "nt1_abd" }],
    ["tenant", { tenant: "other" }],
    ["field", { field: "input" }],
    ["tenant and key run together", { tenant: "acmen", key: "t1_abc" }],
  ])("a payload moved to another %s does not open", (_what, other) => {
    const { seal, open } = sealer(key);
    const sealed = seal({ json: "1" }, bound);
    const error = errorOf(() => open(sealed, { ...bound, ...other }));
    expect(error.code).toBe("STORE_UNAVAILABLE");
    expect(error.message).toMatch(ALTERED);
    expect(error.key).toBe(other.key ?? bound.key);
  });

  test("results swapped between two records open for neither", () => {
    const { seal, open } = sealer(key);
    const other = { ...bound, key: "nt1_other" };
    const [mine, theirs] = [seal({ json: '"mine"' }, bound), seal({ json: '"theirs"' }, other)];
    expect(errorOf(() => open(theirs, bound)).message).toMatch(ALTERED);
    expect(errorOf(() => open(mine, other)).message).toMatch(ALTERED);
  });

  test("another fence in the header does not open", () => {
    const { seal, open } = sealer(key);
    const sealed = sealedText(seal({ json: "1" }, bound)).replace(".3.", ".4.");
    expect(errorOf(() => open({ sealed }, bound)).message).toMatch(ALTERED);
  });
});

describe("tampering", () => {
  test("no single changed character opens", () => {
    const { seal, open } = sealer(key);
    const text = sealedText(seal({ json: '{"amount":100}' }, bound));
    for (let at = 0; at < text.length; at += 1) {
      for (const put of ["A", "B", "0", "1", "f", ".", "-", "="]) {
        if (text[at] === put) continue;
        const sealed = text.slice(0, at) + put + text.slice(at + 1);
        // A changed key id is a key that is missing; everything else was altered.
        expect(["STORE_UNAVAILABLE", "CONFIG"]).toContain(errorOf(() => open({ sealed }, bound)).code);
      }
    }
  });

  test("no single flipped bit of nonce, ciphertext or tag opens", () => {
    const { seal, open } = sealer(key);
    const parts = sealedText(seal({ json: '"hi"' }, bound)).split(".");
    for (const part of [3, 4]) {
      const bytes = Buffer.from(parts[part] as string, "base64url");
      for (let bit = 0; bit < bytes.length * 8; bit += 1) {
        const flipped = Buffer.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        const sealed = parts.with(part, flipped.toString("base64url")).join(".");
        expect(errorOf(() => open({ sealed }, bound)).message).toMatch(ALTERED);
      }
    }
  });

  test.each(["", "ntseal1", "ntseal2.a.b.c.d", "ntseal1.00000000.1.AAAA.AAAA", "x".repeat(10_000)])(
    "text that was never sealed: %.30s",
    (sealed) => {
      expect(errorOf(() => sealer(key).open({ sealed }, bound)).message).toMatch(ALTERED);
    },
  );

  test("a truncated tag is not accepted as a shorter one", () => {
    const { seal, open } = sealer(key);
    const parts = sealedText(seal({ json: "" }, bound)).split(".");
    const body = Buffer.from(parts[4] as string, "base64url");
    const sealed = parts.with(4, body.subarray(0, 12).toString("base64url")).join(".");
    expect(errorOf(() => open({ sealed }, bound)).message).toMatch(ALTERED);
  });
});

describe("keys", () => {
  test("bytes, base64, base64url and hex name the same key", () => {
    const sealed = sealer(key).seal({ json: "1" }, bound);
    for (const encoding of ["base64", "base64url", "hex"] as const) {
      expect(sealer(key.toString(encoding)).open(sealed, bound)).toEqual({ json: "1" });
    }
    expect(sealer(` ${key.toString("hex").toUpperCase()}\n`).open(sealed, bound)).toEqual({ json: "1" });
  });

  test("rotation: the first key seals, all open, and a missing one is named", () => {
    const next = randomBytes(32);
    const old = sealer(key).seal({ json: '"old"' }, bound);
    const rotated = sealer([next, key]);
    expect(rotated.open(old, bound)).toEqual({ json: '"old"' });

    const fresh = rotated.seal({ json: '"new"' }, bound);
    expect(sealer(next).open(fresh, bound)).toEqual({ json: '"new"' });

    const error = errorOf(() => sealer(next).open(old, bound));
    expect(error.code).toBe("CONFIG");
    expect(error.message).toContain(sealedText(old).split(".")[1] as string);
    expect(error.message).toContain("encrypt: [presentKey, olderKey]");
  });

  test("changing the given bytes afterwards does not change the key", () => {
    const bytes = new Uint8Array(key);
    const { seal } = sealer(bytes);
    bytes.fill(0);
    expect(sealer(key).open(seal({ json: "1" }, bound), bound)).toEqual({ json: "1" });
  });

  test.each<[string, unknown]>([
    ["short bytes", new Uint8Array(16)],
    ["long bytes", new Uint8Array(33)],
    ["a password", "correct horse battery staple"],
    ["an empty text", ""],
    ["hex of 16 bytes", "00".repeat(16)],
    ["base64 with a typo", `${key.toString("base64").slice(0, 20)}*${key.toString("base64").slice(21)}`],
    ["an empty list", []],
    ["a list with a bad key", [key, "nope"]],
    ["undefined", undefined],
    ["a number", 5],
    ["options without keys", {}],
  ])("%s is refused, and the message says how to make a key", (_what, option) => {
    const error = errorOf(() => sealer(option as EncryptOption));
    expect(error.code).toBe("CONFIG");
    expect(error.message).toContain(`node -e "console.log(require('node:crypto').randomBytes(32).toString('base64'))"`);
  });

  test("options that encrypt does not have are refused", () => {
    const misspelled = { keys: key, acceptplain: true } as unknown as EncryptOption;
    expect(errorOf(() => sealer(misspelled)).message).toMatch(/no option "acceptplain"/);
    const text = { keys: key, acceptPlain: "yes" } as unknown as EncryptOption;
    expect(errorOf(() => sealer(text)).message).toMatch(/true or false/);
  });

  test("each key has a digest key of its own, with its id and without its bytes", () => {
    const { digestKeys, seal } = sealer([key, randomBytes(32)]);
    expect(digestKeys).toHaveLength(2);
    expect(sealedText(seal({ json: "1" }, bound)).split(".")[1]).toBe(digestKeys[0]?.id);
    expect(Buffer.from(digestKeys[0]?.secret as Uint8Array)).not.toEqual(key);
    expect(sealer(key).digestKeys[0]).toEqual(digestKeys[0]);
  });

  test("a refused key never appears in the message", () => {
    expect(errorOf(() => sealer("hunter2-hunter2")).message).not.toContain("hunter2");
  });
});
