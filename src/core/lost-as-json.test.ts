import fc from "fast-check";
import { expect, it } from "vitest";
import { lostAsJson } from "./lost-as-json.ts";

it("exact: what it lets pass comes back from JSON as it was, and JSON itself always passes", () => {
  const any = fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withSparseArray: true });
  fc.assert(
    fc.property(fc.oneof(any, fc.jsonValue()), (value) => {
      if (lostAsJson(value, "value", { exact: true }) !== null) return;
      expect(JSON.parse(JSON.stringify(value))).toStrictEqual(structuredClone(value));
    }),
  );
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value));
      expect(lostAsJson(plain, "value", { exact: true })).toBeNull();
    }),
  );
});

it("otherwise an undefined field counts as absent, and one object may be there twice", () => {
  const shared = { a: 1 };
  expect(lostAsJson({ x: undefined, list: [undefined, shared, shared], n: -0 }, "input")).toBeNull();
  expect(lostAsJson({ x: { y: [1, new Date(0)] } }, "input")).toMatchObject({
    path: "input.x.y[1]",
    what: "a Date",
    becomesJson: true,
  });
});

it("what is nested without end is refused, not walked", () => {
  let deep: unknown = 1;
  for (let i = 0; i < 100_000; i += 1) deep = [deep];
  expect(lostAsJson(deep, "plan")).toMatchObject({ what: "nested too deeply" });
});

class List extends Array<number> {}
const boxed = Object.setPrototypeOf(new Number(1), Object.prototype) as object;

it.each([
  ["a symbol as a name", { [Symbol("tag")]: 1 }, "plan[Symbol(tag)]"],
  ["a field that is not enumerable", Object.defineProperty({ a: 1 }, "b", { value: 2 }), "plan.b"],
  [
    "a getter",
    {
      list: [
        {
          get now() {
            return Math.random();
          },
        },
      ],
    },
    "plan.list[0].now",
  ],
  ["a setter", { set it(_: unknown) {} }, "plan.it"],
  ["a property of an array", { list: Object.assign([1, 2], { total: 3 }) }, "plan.list.total"],
  ["a property of an array that resembles an index", Object.assign([1], { "01": 3 }), "plan.01"],
  ["a symbol on an array", Object.assign([1], { [Symbol("tag")]: 3 }), "plan[Symbol(tag)]"],
  ["a getter in an array", Object.defineProperty([1, 2], 1, { get: () => 2 }), "plan[1]"],
  ["an item that is not enumerable", Object.defineProperty([1, 2], 1, { enumerable: false }), "plan[1]"],
  ["a hole", Object.assign(new Array(3), { 0: 1, 2: 3 }), "plan[1]"],
  ["a class of arrays", new List(1, 2), "plan"],
  ["an array with toJSON", Object.assign([1], { toJSON: () => 2 }), "plan"],
  ["an object with toJSON", { a: { toJSON: () => 2 } }, "plan.a"],
  ["an inherited toJSON", { a: Object.create({ toJSON: () => 2 }) as object }, "plan.a"],
  ["a boxed number", { n: new Number(1) }, "plan.n"],
  ["a boxed text", new String("x"), "plan"],
  ["a boxed boolean", [new Boolean(false)], "plan[0]"],
  ["a boxed number that passes for an object", { n: boxed }, "plan.n"],
  ["a boxed bigint", Object(1n) as object, "plan"],
])("exact: %s does not pass, and is found", (_, value, path) => {
  expect(lostAsJson(value, "plan", { exact: true })).toMatchObject({ path });
});
