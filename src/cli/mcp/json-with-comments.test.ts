import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withoutComments } from "./json-with-comments.ts";

describe("a config file with comments", () => {
  it("loses its comments and last commas, and nothing else", () => {
    const text = `// one\n{ "a": "http://x/*y*/", /* two\n */ "b": [1, 2,], // "c": 3,\n "d": "\\"// no", }`;
    expect(JSON.parse(withoutComments(text))).toEqual({ a: "http://x/*y*/", b: [1, 2], d: '"// no' });
  });

  it("keeps every position, so that an error names the right place", () => {
    const text = '{\n  // a comment\n  "a": ,\n}';
    expect(withoutComments(text)).toHaveLength(text.length);
    expect(withoutComments(text).split("\n")).toHaveLength(4);
  });

  it("leaves a text without comments as it is", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(withoutComments(text)).toBe(text);
      }),
    );
  });

  it("an open comment or string stays an error", () => {
    for (const text of ['{ "a": 1 } /* never closed', '{ "a": "never closed }'])
      expect(() => JSON.parse(withoutComments(text)), text).toThrow(SyntaxError);
  });
});
