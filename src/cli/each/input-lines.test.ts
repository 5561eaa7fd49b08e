import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InputLines } from "./input-lines.ts";

describe("the lines of inputs", () => {
  it("an input is found by its line, whatever blank and broken lines are between", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("input", "blank", "broken")), (kinds) => {
        const lines = new InputLines();
        const expected: number[] = [];
        kinds.forEach((kind, i) => {
          const number = i + 1;
          if (kind === "blank") return;
          const line = { number, ...(kind === "broken" && { broken: "it is not JSON", raw: Buffer.of(1) }) };
          expect(lines.take(line)).toBe(kind === "input");
          if (kind === "input") expected.push(number);
        });
        expect(expected.map((_, index) => lines.lineOf(index))).toEqual(expected);
        expect(lines.brokenCount).toBe(kinds.filter((kind) => kind === "broken").length);
      }),
    );
  });

  it("keeps a bounded number of broken lines, and counts all", () => {
    const lines = new InputLines();
    for (let number = 1; number <= 1_500; number += 1)
      lines.take({ number, broken: "it is not JSON", raw: Buffer.of(1) });
    expect([lines.broken.length, lines.brokenCount]).toEqual([1_000, 1_500]);
  });
});
