import { expect, it } from "vitest";
import { sampleRecord } from "../../testing/index.ts";
import { decodeChange, encodePut } from "./line.ts";
import { withBitFlippedBack } from "./repair.ts";

const written = Buffer.from(encodePut(sampleRecord({ key: "nt1_a", action: "größe" }), 7, 7).slice(0, -1));
const spanOf = (bytes: Buffer) => ({ bytes, from: 0, to: bytes.length });

it("every single flipped bit of a line is found, and the line is as it was written", () => {
  for (let bit = 0; bit < written.length * 8; bit += 1) {
    const bytes = Buffer.from(written);
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    const found = withBitFlippedBack(spanOf(bytes));
    expect(found?.bytes.equals(written)).toBe(true);
  }
  expect(decodeChange(spanOf(written))).toMatchObject({ kind: "put", rev: 7, head: { key: "nt1_a" } });
});

it("more than one flipped bit, a line cut short and no line at all are not taken for one", () => {
  const two = Buffer.from(written);
  two[10] = (two[10] as number) ^ 1;
  two[40] = (two[40] as number) ^ 4;
  for (const bytes of [two, written.subarray(0, -1), written.subarray(0, 30), written.subarray(5), Buffer.alloc(0)])
    expect(withBitFlippedBack(spanOf(Buffer.from(bytes)))).toBeNull();
});
