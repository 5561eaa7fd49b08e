import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decimalOf, exactDigits, parseExact, stringifyExact, withItems, withMember } from "./exact-json.ts";

/** Any number that JSON can hold, with any number of digits. */
const token = fc
  .tuple(
    fc.boolean(),
    fc.stringMatching(/^(?:0|[1-9][0-9]{0,40})$/),
    fc.option(fc.stringMatching(/^[0-9]{1,40}$/)),
    fc.option(fc.integer({ min: -500, max: 500 })),
  )
  .map(([minus, whole, fraction, exponent]) =>
    [
      minus ? "-" : "",
      whole,
      fraction === null ? "" : `.${fraction}`,
      exponent === null ? "" : `e${exponent < 0 ? "" : "+"}${exponent}`,
    ].join(""),
  );

/** A fraction of whole numbers: what the text means, by arithmetic of another kind. */
function value(text: string): readonly [bigint, bigint] {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const shift = BigInt(exponent) - BigInt(fraction.length);
  const figures = BigInt(`${whole}${fraction}`) * (sign === "-" ? -1n : 1n);
  return shift < 0n ? [figures, 10n ** -shift] : [figures * 10n ** shift, 1n];
}

const same = (one: string, two: string) => {
  const [[a, b], [c, d]] = [value(one), value(two)];
  return a * d === c * b;
};

describe("numbers keep their digits", () => {
  it("a text without marks reads as JSON.parse reads it, and every double is a number", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (json) => {
        const text = JSON.stringify(json);
        expect(parseExact(text)).toEqual(JSON.parse(text));
        expect(stringifyExact(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)));
      }),
    );
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (double) => {
        expect(parseExact(JSON.stringify(double))).toEqual(JSON.parse(JSON.stringify(double)));
      }),
    );
  });

  it("whole numbers of any length come back as they were, and two are equal only where BigInt says so", () => {
    const whole = fc.bigInt({ min: -(10n ** 99n), max: 10n ** 99n });
    fc.assert(
      fc.property(whole, whole, (one, two) => {
        const [first, second] = [parseExact(`[${one}]`), parseExact(`[${two}]`)];
        const back = BigInt(
          stringifyExact(first)
            .slice(1, -1)
            .replace(/^(-?\d)(?:\.(\d+))?e\+?(\d+)$/, expand),
        );
        expect(back).toBe(one);
        expect(JSON.stringify(first) === JSON.stringify(second)).toBe(one === two);
      }),
    );
  });

  it("two texts have one form exactly where they mean one number", () => {
    fc.assert(
      fc.property(token, token, (one, two) => {
        expect(decimalOf(one) === decimalOf(two)).toBe(same(one, two));
        expect(same(one, decimalOf(one))).toBe(true);
        expect(same(one, stringifyExact(parseExact(one)))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ["9007199254740993", "9007199254740993"],
    ["9007199254740993.0", "9007199254740993"],
    ["9.007199254740993e15", "9007199254740993"],
    ["9223372036854775807", "9223372036854775807"],
    ["-9007199254740993", "-9007199254740993"],
    ["0.10000000000000000001", "0.10000000000000000001"],
    ["1e400", "1e400"],
    ["10E399", "1e400"],
    ["1e-400", "1e-400"],
    ["99999999999999991611392", "99999999999999991611392"],
  ])("%s is more than a double", (text, digits) => {
    expect(exactDigits(parseExact(text))).toBe(digits);
    expect(stringifyExact(parseExact(`{"a":[${text}]}`))).toBe(`{"a":[${digits}]}`);
  });

  it.each([
    "1",
    "1.0",
    "1e0",
    "-0",
    "0.1",
    "9007199254740992",
    "9007199254740994",
    "1e23",
    "5e-324",
    "0e9",
    "123456.50",
  ])("%s is a double", (text) => {
    expect(parseExact(text)).toBe(JSON.parse(text));
  });

  it("an exponent of any length is kept as it is", () => {
    const text = `1e${"9".repeat(500)}`;
    expect(stringifyExact(parseExact(text))).toBe(text);
  });

  it("a member of the mark's own name is a member, in any spelling", () => {
    for (const text of [
      '{"nevertwice:number":"5"}',
      '{"a":{"nevertwice:nevertwice:number":"5"},"nevertwice:number":9007199254740993}',
      '["{\\"nevertwice:number\\":\\"5\\"}","nevertwice:number",{"b":1,"nevertwice:number":null}]',
    ])
      expect(stringifyExact(parseExact(text))).toBe(text);
    expect(exactDigits(parseExact('{"nevertwice\\u003anumber":"5"}'))).toBeNull();
    expect(stringifyExact(parseExact('{"nevertwice\\u003anumber":"5"}'))).toBe('{"nevertwice:number":"5"}');
  });

  it("texts that quote marks are texts", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('"', "\\", "{", "}", ":", ",", "nevertwice:", "number", "5"), { maxLength: 12 }),
        (parts) => {
          const text = JSON.stringify([parts.join(""), { [parts.join("")]: parts }]);
          expect(stringifyExact(parseExact(text))).toBe(text);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

function expand(_: string, first: string, rest: string | undefined, exponent: string): string {
  return `${first}${(rest ?? "").padEnd(Number(exponent), "0")}`;
}

describe("one place of a text is changed", () => {
  const text =
    ' { "id" : 1.0 , "params":{"arguments":{ "n": 1.50, "t":"}\\"]" }, "e":{} }, "list":[ 1e2 ], "none":[] } ';

  it("and every other byte stays", () => {
    expect(withMember(text, [], "id", "x")).toBe(text.replace("1.0", '"x"'));
    expect(withMember(text, ["params", "arguments"], "key", "k")).toBe(text.replace('" }, "e"', '" ,"key":"k"}, "e"'));
    expect(withMember(text, ["params", "arguments"], "n", 2)).toBe(text.replace("1.50", "2"));
    expect(withMember(text, ["params", "e"], "key", "k")).toBe(text.replace("{}", '{"key":"k"}'));
    expect(withItems(text, ["list"], [{ a: 1 }, 2])).toBe(text.replace("1e2 ", '1e2 ,{"a":1},2'));
    expect(withItems(text, ["none"], [1])).toBe(text.replace("[]", "[1]"));
    expect(withItems(text, ["params"], [1])).toBeNull();
    expect(() => withMember(text, ["missing"], "a", 1)).toThrow(/missing/);
  });

  it("as JSON.parse and assignment would have it", () => {
    const names = fc.constantFrom("a", "b", 'c"d', "é", "");
    fc.assert(
      fc.property(
        fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })),
        names,
        fc.jsonValue(),
        fc.nat(3),
        (object, name, set, spaces) => {
          const changed = withMember(JSON.stringify({ in: object }, null, spaces), ["in"], name, set);
          expect(JSON.parse(changed)).toEqual(JSON.parse(JSON.stringify({ in: { ...object, [name]: set } })));
        },
      ),
    );
  });
});
