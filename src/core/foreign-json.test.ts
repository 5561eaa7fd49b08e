import { describe, expect, it } from "vitest";
import { DEEPEST_JSON, parseForeignJson, whyNotJson } from "./foreign-json.ts";

const nested = (levels: number, open = "[", close = "]") => open.repeat(levels) + close.repeat(levels);
const why = (text: string) => {
  try {
    return parseForeignJson(text);
  } catch (error) {
    return whyNotJson(error);
  }
};

describe("JSON from outside", () => {
  it("is parsed up to its deepest level, and refused beyond it", () => {
    expect(why(nested(DEEPEST_JSON))).toEqual(JSON.parse(nested(DEEPEST_JSON)));
    expect(why(nested(DEEPEST_JSON + 1))).toMatch(/more than 256 levels deep/);
    expect(why(nested(1_000_000))).toMatch(/levels deep/);
    expect(why(nested(100_000, '{"a":', "}"))).toMatch(/levels deep/);
  });

  it("brackets inside of texts do not count", () => {
    const text = JSON.stringify(['[{"'.repeat(10_000), "\\[", '\\"[['.repeat(1_000)]);
    expect(why(text)).toEqual(JSON.parse(text));
  });

  it("many values side by side are not deep", () => {
    const wide = JSON.stringify(Array.from({ length: 10_000 }, (_, i) => ({ i: [i] })));
    expect(why(wide)).toEqual(JSON.parse(wide));
  });

  it("what is not JSON is said to be none", () => {
    expect(why("{oops")).toBe("it is not JSON");
    expect(why("[".repeat(10))).toBe("it is not JSON");
  });
});
