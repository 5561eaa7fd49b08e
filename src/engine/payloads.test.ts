import { describe, expect, it } from "vitest";
import { sealer } from "../core/seal.ts";
import { sampleRecord } from "../testing/index.ts";
import { losesMeaningAsJson, Payloads } from "./payloads.ts";

const bound = { tenant: "", key: "nt1_sample", fence: 1 };
const plain = new Payloads(null);
const store = (value: unknown, maxBytes = 1_000) => plain.store(value, "result", maxBytes, bound);
const load = (result: ReturnType<typeof store>, from = plain) => from.load(sampleRecord({ result }), "result");

describe("Payloads", () => {
  it("brings values back as JSON does", () => {
    for (const value of [null, 0, "", false, [1, { a: "ü\u2028" }], { nested: { deep: [null] } }]) {
      expect(load(store(value))).toEqual({ value });
    }
    expect(load(store({ at: new Date(0), gone: undefined }))).toEqual({ value: { at: "1970-01-01T00:00:00.000Z" } });
  });

  it("undefined is stored as nothing, and comes back as undefined", () => {
    expect(store(undefined)).toBeNull();
    expect(load(null)).toEqual({ value: undefined });
  });

  it("what cannot be stored is left out, with the reason", () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    for (const value of [1n, circular, () => 1, Symbol("s")]) {
      expect(load(store(value))).toEqual({ value: undefined, omitted: expect.stringMatching(/written as JSON/) });
    }
  });

  it("the bound is in bytes, not in characters", () => {
    expect(store("é".repeat(499), 1_000)).toHaveProperty("json");
    expect(store("é".repeat(500), 1_000)).toEqual({ omitted: "it is larger than 1000 bytes" });
    expect(store("e".repeat(999), 1_000)).toHaveProperty("omitted");
  });

  it("sealed payloads open with their key, and say so without one", () => {
    const sealing = new Payloads(sealer(new Uint8Array(32).fill(7)));
    const sealed = sealing.store({ secret: 1 }, "result", 1_000, bound);
    expect(JSON.stringify(sealed)).not.toContain("secret");
    expect(load(sealed, sealing)).toEqual({ value: { secret: 1 } });
    expect(load(sealed, plain)).toMatchObject({ value: undefined, omitted: expect.stringMatching(/sealed/) });
  });

  it.each([
    ["a Response", new Response("x"), "a Response, which cannot be stored: a repeat would get an empty object"],
    ["a Map", new Map(), "a Map, which cannot be stored: a repeat would get an empty object"],
    ["a Date", new Date(0), "a Date: a repeat would get its ISO string"],
    ["bytes", new Uint8Array([1]), "bytes: a repeat would get a plain object"],
    ["a Buffer", Buffer.from("x"), "bytes: a repeat would get a plain object"],
    ["NaN in a field", { price: Number.NaN }, "NaN (in price): a repeat would get null"],
    ["a Date in a field", { mail: { sent: new Date(0) } }, "a Date (in mail.sent): a repeat would get its ISO string"],
    [
      "a Set in a list",
      { rows: [1, new Set()] },
      "a Set (in rows.1), which cannot be stored: a repeat would get an empty object",
    ],
  ])("says what a repeat would get instead of %s", (_, value, sentence) => {
    expect(losesMeaningAsJson(value)).toBe(sentence);
  });

  it.each([
    ["a plain object", {}],
    ["a list", [1, [2]]],
    ["null", null],
    ["a text", "Map"],
    ["an object without a prototype", Object.create(null)],
    ["what says itself what it is as JSON", { total: { toJSON: () => "1.00" } }],
  ])("has nothing to say about %s", (_, value) => {
    expect(losesMeaningAsJson(value)).toBeNull();
  });

  it("never throws at an odd result", () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const throws = () => {
      throw new Error("trap");
    };
    for (const odd of [
      proxy,
      { inner: proxy },
      new Proxy({ a: 1 }, { get: throws }),
      new Proxy({}, { ownKeys: throws }),
    ])
      expect(losesMeaningAsJson(odd)).toBeNull();
  });
});
