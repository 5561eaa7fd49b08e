import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MOST_DEPTH, readJson, readJsonBytes } from "./strict-json.ts";

describe("JSON that every parser reads the same way", () => {
  it("what JSON.stringify wrote is read as JSON.parse reads it", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes("__proto__"));
        expect(readJson(text)).toMatchObject({ ok: true, value: JSON.parse(text) as unknown });
        expect(readJsonBytes(Buffer.from(JSON.stringify(value, null, 2)))).toMatchObject({ ok: true });
      }),
    );
  });

  it("a name that comes twice is refused, at any depth and in any spelling", () => {
    const property = fc.property(fc.string({ unit: "binary" }), fc.nat(5), (name, depth) => {
      fc.pre(name !== "__proto__");
      const escaped = [...name].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
      fc.pre([...name].every((one) => one.length === 1));
      const text = `${'[{"a":'.repeat(depth)}{${JSON.stringify(name)}:1,"${escaped}":2}${"}]".repeat(depth)}`;
      expect(readJson(text)).toMatchObject({ ok: false, problem: expect.stringMatching(/two members named/) });
    });
    fc.assert(property);
  });

  it("the same name in two objects is no repetition", () => {
    expect(readJson('[{"a":{"a":1}},{"a":[{"a":2},{"a":"\\"a\\":1"}],"b":"a"}]')).toMatchObject({ ok: true });
  });

  it.each([
    ["a byte order mark", "\uFEFF{}", /byte order mark/],
    ["what is not JSON", "{]", /not JSON/],
    ["__proto__", '{"a":[{"__proto__":1}]}', /__proto__/],
    ["too deep", `${"[".repeat(MOST_DEPTH + 1)}${"]".repeat(MOST_DEPTH + 1)}`, /more than 128 levels/],
  ])("refuses %s", (_, text, problem) => {
    expect(readJson(text)).toMatchObject({ ok: false, problem: expect.stringMatching(problem) });
  });

  it("says which number cannot be held exactly", () => {
    const inexact = (text: string) => {
      const reading = readJson(text);
      return reading.ok ? reading.inexact : undefined;
    };
    for (const exact of [
      "0",
      "-0",
      "1.5",
      "0.1",
      "1e21",
      "9007199254740991",
      "0.30000000000000004",
      '"9007199254740993"',
    ]) {
      expect(inexact(`{"a":[${exact}]}`)).toBe(null);
    }
    for (const wrong of ["9007199254740993", "-9007199254740992", "1e999", "0.1234567890123456789"]) {
      expect(inexact(`{"a":[1,${wrong}]}`)).toBe(wrong);
    }
  });

  it("bytes that are not UTF-8 are refused", () => {
    expect(readJsonBytes(Buffer.from([0x22, 0xff, 0x22]))).toMatchObject({
      ok: false,
      problem: "the body is not UTF-8",
    });
  });
});
