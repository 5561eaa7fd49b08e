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
