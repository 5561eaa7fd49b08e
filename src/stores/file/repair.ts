/**
 * A line with one flipped bit, as it was written. CRC-32 is linear: how the checksum of a line's bytes differs from the one
 * that it carries depends on which bit was flipped, and on nothing else. So the bit can be found, and with it the record
 * that the line is about. Without that nobody could say which intent has lost its guard, and the whole ledger would have to
 * be refused. What is found this way tells whose line it is; the record itself counts as damaged.
 */
import { checksum, SUM_DIGITS } from "../shared/checksum.ts";
import { isIntact, type Span, TAIL_BYTES } from "./line.ts";

const NO_BYTE = checksum(Buffer.of(0));
/** How the checksum changes with one byte. */
const EFFECTS: readonly number[] = Array.from(
  { length: 256 },
  (_, byte) => (checksum(Buffer.of(byte)) ^ NO_BYTE) >>> 0,
);
// `"}`, behind the eight digits of the checksum.
const BEHIND_SUM = 2;

/** Null: it is something else than one flipped bit that is wrong with the line. */
export function withBitFlippedBack({ bytes, from, to }: Span): Span | null {
  const own = Buffer.from(bytes.subarray(from, to));
  const line = { bytes: own, from: 0, to: own.length };
  const end = own.length - TAIL_BYTES;
  if (end <= 0) return null;
  return flippedInBody(line, end) ?? flippedInTail(line, end);
}

function flippedInBody(line: Span, end: number): Span | null {
  const digits = line.bytes.toString("latin1", line.to - BEHIND_SUM - SUM_DIGITS, line.to - BEHIND_SUM);
  const difference = (Number.parseInt(digits, 16) ^ checksum(line.bytes.subarray(0, end))) >>> 0;
  // For each bit of a byte, what its flip does to the checksum: first of the last byte, then one byte further in front.
  const effects = Array.from({ length: 8 }, (_, bit) => EFFECTS[1 << bit] as number);
  for (let at = end - 1; at >= 0; at -= 1) {
    const bit = effects.indexOf(difference);
    if (bit !== -1) return flipped(line, at, bit);
    for (const [i, effect] of effects.entries())
      effects[i] = ((effect >>> 8) ^ (EFFECTS[effect & 0xff] as number)) >>> 0;
  }
  return null;
}

/** In the checksum or what is around it: few enough to try. */
function flippedInTail(line: Span, end: number): Span | null {
  for (let at = end; at < line.to; at += 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const found = flipped(line, at, bit);
      if (found !== null) return found;
    }
  }
  return null;
}

function flipped(line: Span, at: number, bit: number): Span | null {
  line.bytes[at] = (line.bytes[at] as number) ^ (1 << bit);
  if (isIntact(line)) return line;
  line.bytes[at] = (line.bytes[at] as number) ^ (1 << bit);
  return null;
}
