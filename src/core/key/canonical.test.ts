import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NevertwiceError } from "../errors.ts";
import { canonicalFields, canonicalInput, canonicalKey, INPUT_LIMITS, KEY_LIMITS } from "./canonical.ts";

function refusalOf(run: () => unknown): NevertwiceError {
  try {
    run();
  } catch (error) {
    if (error instanceof NevertwiceError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function nested(levels: number): unknown {
  let value: unknown = "core";
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { in: value };
  return value;
}

class Money {
  readonly cents = 5;
}
class Tags extends Array<string> {}

const cycle: Record<string, unknown> = { a: {} };
(cycle.a as Record<string, unknown>).back = cycle;
const holed = ["a", "b", "c"];
delete holed[1];
const tagged = Object.assign(["a"], { extra: 1 });
const revoked = Proxy.revocable({}, {});
revoked.revoke();
let read = 0;
const getter = {
  get fresh() {
    read += 1;
    return read;
  },
};
const gettingArray = Object.defineProperty(["a"], 0, { get: () => "b", enumerable: true });

describe("canonical JSON", () => {
  it("K1 writes fields in UTF-16 order whatever the order they were given in", () => {
    expect(canonicalKey({ b: 1, a: [true, null, "x"], "\u{1f600}": 2, "\ufb33": 3 }, "key[0]")).toBe(
      '{"a":[true,null,"x"],"b":1,"\u{1f600}":2,"\ufb33":3}',
    );
  });

  it("writes numbers and strings as RFC 8785 does", () => {
    const numbers = [Number("333333333.33333329"), 1e30, 4.5, 2e-3, 1e-27, -0, 1e21, 1e-7, 0.1 + 0.2];
    expect(canonicalKey(numbers, "k")).toBe(
      "[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1e+21,1e-7,0.30000000000000004]",
    );
    expect(canonicalKey('\u20ac$\u000f\nA\'B"\\\\"/\u007f\u2028', "k")).toBe(
      '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u007f\u2028"',
    );
  });

  it("takes objects without a prototype and objects of another realm as plain", () => {
    expect(canonicalKey(Object.assign(Object.create(null), { b: 1, a: 2 }), "k")).toBe('{"a":2,"b":1}');
    expect(canonicalKey(runInNewContext("({ b: [1], a: {} })"), "k")).toBe('{"a":{},"b":[1]}');
    expect(canonicalInput(runInNewContext("new Date(0)"), "i")).toBe('"1970-01-01T00:00:00.000Z"');
  });

  it("keeps an own __proto__ field as a field", () => {
    const value = JSON.parse('{"__proto__":{"a":1},"b":2}');
    expect(canonicalKey(value, "k")).toBe('{"__proto__":{"a":1},"b":2}');
    expect(canonicalKey({ b: 2 }, "k")).not.toBe(canonicalKey(value, "k"));
  });

  it("takes a data field that is merely named toJSON", () => {
    expect(canonicalKey({ toJSON: "yes" }, "k")).toBe('{"toJSON":"yes"}');
  });

  it("takes the same object twice: that is no cycle", () => {
    const shared = { a: 1 };
    expect(canonicalKey([shared, shared], "k")).toBe('[{"a":1},{"a":1}]');
  });

  it("property: K1 is invariant under field order and parses back to the same value", () => {
    const value = fc.jsonValue({ maxDepth: 5 }).map((v) => JSON.parse(JSON.stringify(v)) as unknown);
    fc.assert(
      fc.property(value, (v) => {
        const text = canonicalKey(v, "k");
        expect(canonicalKey(reversed(v), "k")).toBe(text);
        expect(canonicalInput(v, "i")).toBe(text);
        expect(JSON.parse(text)).toEqual(v);
      }),
    );
  });
});

/** The same value with the fields of every object in the opposite order of insertion. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, held]) => [name, reversed(held)]),
  );
}

describe("what a key refuses, where and why", () => {
  const refusals: readonly [name: string, value: unknown, message: RegExp][] = [
    ["Map", { m: new Map() }, /^key\[1\]\.m: an instance of Map is not plain data\. Use Object\.fromEntries/],
    ["Set", { m: new Set() }, /^key\[1\]\.m: an instance of Set is not plain data\. Use a sorted array/],
    ["Date", { at: new Date() }, /^key\[1\]\.at: a Date .* Use a window such as day\(at\)/],
    ["BigInt", { customer: { id: 5n } }, /^key\[1\]\.customer\.id: a BigInt has no JSON form\. Use its decimal string/],
    ["symbol", [Symbol("x")], /^key\[1\]\[0\]: a symbol cannot be part of a key part\. Use a string/],
    ["function", { f() {} }, /^key\[1\]\.f: a function cannot be part of a key part\./],
    ["hole", holed, /^key\[1\]\[1\]: the array has a hole here\. Fill it/],
    ["undefined field", { a: undefined }, /^key\[1\]\.a: the value is undefined\. Give it a value/],
    ["undefined element", [1, undefined], /^key\[1\]\[1\]: the value is undefined\./],
    ["getter", getter, /^key\[1\]\.fresh: this is a getter, .*Copy its value/],
    ["getter in an array", gettingArray, /^key\[1\]\[0\]: this is a getter/],
    ["own toJSON", { v: { toJSON: () => "x" } }, /^key\[1\]\.v: the value has a toJSON method/],
    ["toJSON as a getter", Object.defineProperty({}, "toJSON", { get: () => 1, enumerable: true }), /toJSON method/],
    ["inherited toJSON", { u: new URL("https://a.example") }, /^key\[1\]\.u: an instance of URL is not plain data/],
    ["symbol key", { s: { [Symbol("x")]: 1 } }, /^key\[1\]\.s: the object has a field whose name is a symbol/],
    ["hidden field", Object.defineProperty({}, "h", { value: 1 }), /^key\[1\]\.h: the field is hidden/],
    ["class instance", [new Money()], /^key\[1\]\[0\]: an instance of Money is not plain data/],
    ["inherited fields", Object.create({ a: 1 }), /^key\[1\]: .*not plain data/],
    ["Buffer", Buffer.from("a"), /^key\[1\]: an instance of Buffer is not plain data/],
    ["Error", new Error("x"), /^key\[1\]: an instance of Error/],
    ["RegExp", /x/, /^key\[1\]: an instance of RegExp/],
    ["Promise", [Promise.resolve()], /^key\[1\]\[0\]: an instance of Promise is not plain data\. Await it first/],
    ["Array subclass", Tags.of("a"), /^key\[1\]: an instance of an Array subclass/],
    ["Array without prototype", Object.setPrototypeOf(["a"], null), /^key\[1\]: /],
    ["extra properties of an array", tagged, /^key\[1\]: the array carries extra properties/],
    ["boxed string", Object("x"), /^key\[1\]: an instance of String is not plain data\. Use the primitive/],
    ["boxed number", Object(1), /Use the primitive/],
    ["boxed boolean", Object(false), /Use the primitive/],
    ["NaN", { n: Number.NaN }, /^key\[1\]\.n: NaN is not a finite number/],
    ["Infinity", Number.POSITIVE_INFINITY, /^key\[1\]: Infinity is not a finite number/],
    ["lone surrogate", "a\ud83d", /^key\[1\]: the string has a lone surrogate .*emoji/],
    ["lone surrogate in a name", { o: { "\udc00": 1 } }, /^key\[1\]\.o: a field's name has a lone surrogate/],
    ["cycle", cycle, /^key\[1\]\.a\.back: the value contains itself \(a cycle\)/],
    ["revoked Proxy", { p: revoked.proxy }, /^key\[1\]\.p: this value could not be read/],
    [
      "Proxy whose trap throws",
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error("boo");
          },
        },
      ),
      /^key\[1\]: this value could not/,
    ],
    ["Proxy of a Date", new Proxy(new Date(), {}), /^key\[1\]: .*not plain data/],
    ["odd field name in the path", { "e mail": { "a.b": 1n } }, /^key\[1\]\["e mail"\]\["a\.b"\]: /],
    [
      "over-deep",
      nested(KEY_LIMITS.depth + 1),
      /may be nested 16 levels deep, and this is deeper\. Key on the few fields/,
    ],
    ["too many values", new Array(KEY_LIMITS.nodes + 1).fill(1), /^key\[1\]: a key part may hold 10000 values/],
    ["too many fields", Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [n, 1])), /may hold 10000 values/],
    ["too large", { s: "x".repeat(KEY_LIMITS.bytes + 1) }, /^key\[1\]\.s: a key part may be 65536 bytes/],
    [
      "too large in sum",
      Array.from({ length: 70 }, () => "x".repeat(1_000)),
      /^key\[1\]\[\d+\]: a key part may be 65536 bytes/,
    ],
    ["too large in bytes, not in characters", "\u20ac".repeat(30_000), /^key\[1\]: a key part may be 65536 bytes/],
    ["too large a field name", { ["x".repeat(70_000)]: 1 }, /65536 bytes/],
  ];

  it.each(refusals)("refuses %s", (_, value, message) => {
    const error = refusalOf(() => canonicalKey(value, "key[1]"));
    expect(error.message).toMatch(message);
    expect(error.code).toBe("INVALID_KEY");
  });

  it("never invokes a getter", () => {
    refusalOf(() => canonicalKey(getter, "k"));
    refusalOf(() => canonicalInput(getter, "i"));
    canonicalFields(getter, "i", ["fresh"]);
    expect(read).toBe(0);
  });

  it("K6 never tells the value in a message", () => {
    for (const value of [
      ["anna@example.com\ud83d"],
      { to: Object("anna@example.com") },
      { n: new Map([["anna@example.com", 1]]) },
    ]) {
      expect(refusalOf(() => canonicalKey(value, "k")).message).not.toContain("anna");
    }
  });

  it("keeps the error of a Proxy's trap as the cause", () => {
    const boo = new Error("boo");
    const proxy = new Proxy(
      {},
      {
        getPrototypeOf: () => {
          throw boo;
        },
      },
    );
    expect(refusalOf(() => canonicalKey(proxy, "k")).cause).toBe(boo);
  });

  it("reads a well-behaved Proxy through its own fields", () => {
    expect(canonicalKey(new Proxy({ b: 1, a: 2 }, { get: () => "lie" }), "k")).toBe('{"a":2,"b":1}');
  });

  it("refuses a huge value early: it is not written out first", () => {
    const started = performance.now();
    refusalOf(() => canonicalKey(new Array(50_000_000), "k"));
    refusalOf(() => canonicalInput("x".repeat(200_000_000), "i"));
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  it("refuses everything once Object.prototype has a toJSON", () => {
    Object.defineProperty(Object.prototype, "toJSON", { value: () => "x", configurable: true });
    try {
      expect(refusalOf(() => canonicalKey({ a: 1 }, "k")).message).toMatch(/^k: the value has a toJSON method/);
    } finally {
      Reflect.deleteProperty(Object.prototype, "toJSON");
    }
  });

  it("takes what is right at the limits", () => {
    expect(() => canonicalKey(nested(KEY_LIMITS.depth), "k")).not.toThrow();
    expect(() => canonicalKey("x".repeat(KEY_LIMITS.bytes - 2), "k")).not.toThrow();
    expect(() => canonicalKey(new Array(KEY_LIMITS.nodes - 1).fill(1), "k")).not.toThrow();
    expect(() => canonicalInput(nested(INPUT_LIMITS.depth), "i")).not.toThrow();
  });
});

describe("what an input may be", () => {
  it("K1 reads a Date as its ISO string and an undefined field as absent", () => {
    const at = new Date("2026-01-15T09:35:00Z");
    expect(canonicalInput({ at, note: undefined, list: [at] }, "input")).toBe(
      '{"at":"2026-01-15T09:35:00.000Z","list":["2026-01-15T09:35:00.000Z"]}',
    );
    expect(canonicalInput({ a: undefined, b: 1, c: undefined }, "input")).toBe('{"b":1}');
  });

  it("leaves the named top-level fields out, unread", () => {
    expect(canonicalInput({ body: () => 1, id: 7, in: { body: 1 } }, "input", ["body"])).toBe(
      '{"id":7,"in":{"body":1}}',
    );
  });

  const refusals: readonly [name: string, value: unknown, message: RegExp][] = [
    ["an undefined element", { list: [undefined] }, /^input\.list\[0\]: the value is undefined/],
    ["undefined itself", undefined, /^input: the value is undefined/],
    ["an invalid Date", { at: new Date("no") }, /^input\.at: the Date is invalid/],
    ["a function", { cb() {} }, /^input\.cb: a function .* list its top-level field in `free`/],
    ["a BigInt", { n: 1n }, /^input\.n: a BigInt has no JSON form/],
    ["a Map", { m: new Map() }, /^input\.m: an instance of Map .*list its top-level field in `free`/],
    ["a stream", { s: new ReadableStream() }, /^input\.s: an instance of ReadableStream .*`free`/],
    ["what is over-deep", nested(INPUT_LIMITS.depth + 1), /nested 64 levels deep/],
    ["what is too large", "x".repeat(INPUT_LIMITS.bytes), /^input: .* may be 4194304 bytes/],
    ["too many values", new Array(INPUT_LIMITS.nodes + 1).fill(0), /^input: .* may hold 200000 values/],
  ];

  it.each(refusals)("refuses %s", (_, value, message) => {
    const error = refusalOf(() => canonicalInput(value, "input"));
    expect(error.message).toMatch(message);
    expect(error.code).toBe("INVALID_INPUT");
  });

  it("gives the fields of an object one by one, and null for a free one that cannot be compared", () => {
    const input = { b: 1, a: undefined, body: 1n, note: undefined, c: new Date(0) };
    expect(canonicalFields(input, "input", ["body", "note"])).toEqual([
      ["b", "1"],
      ["body", null],
      ["c", '"1970-01-01T00:00:00.000Z"'],
    ]);
    expect(canonicalFields([1], "input", [])).toBeNull();
    expect(canonicalFields("text", "input", [])).toBeNull();
    expect(refusalOf(() => canonicalFields({ a: { b: 1n } }, "input", [])).message).toMatch(/^input\.a\.b: a BigInt/);
  });

  it("counts the bytes of all guarded fields together, and none of the free ones", () => {
    const third = "\u20ac".repeat(600_000);
    expect(refusalOf(() => canonicalFields({ a: third, b: third, c: third }, "input", [])).message).toMatch(
      /4194304 bytes/,
    );
    expect(canonicalFields({ a: third, b: third, c: third }, "input", ["b", "c"])).toHaveLength(3);
  });
});
