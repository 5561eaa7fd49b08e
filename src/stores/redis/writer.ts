/**
 * Bytes of text written one after the other, without making a string of each piece first: a row has fifty of them, and
 * what they leave behind for the garbage collector costs a busy program more than the writing.
 */
import { codeAt } from "../../core/key/code-at.ts";

const SMALLEST = 4_096;
// UTF-8 takes at most three bytes for a unit of a JavaScript string, and JSON six characters for one.
const WIDEST = 3;
const WIDEST_IN_JSON = 6;
const LONGEST_NUMBER = 32;
// Below this a loop is quicker than the way into Node's own writer.
const SHORT = 64;

const ZERO = 48;
const MINUS = 45;
const A_AFTER_TEN = 87;
const QUOTE = 34;
const BACKSLASH = 92;
const FIRST_PRINTABLE = 32;
const LAST_ASCII = 127;
const BILLION = 1e9;

export class ByteWriter {
  #bytes: Buffer;
  #end = 0;

  /** `expectedBytes`: about how long it will be, so that it need not grow. */
  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafe(Math.max(SMALLEST, expectedBytes));
  }

  /** How many bytes were written. */
  get end(): number {
    return this.#end;
  }

  /** What was written; not a copy. */
  slice(from: number, to: number): Buffer {
    return this.#bytes.subarray(from, to);
  }

  text(text: string): void {
    const { length } = text;
    this.#reserve(length * WIDEST);
    if (length > SHORT || !this.#ascii(text, false)) this.#end += this.#bytes.write(text, this.#end);
  }

  /** As JSON: quoted, and escaped where it must be. */
  json(text: string): void {
    const { length } = text;
    this.#reserve(length * WIDEST_IN_JSON + 2);
    const start = this.#end;
    this.#bytes[this.#end++] = QUOTE;
    if (length <= SHORT && this.#ascii(text, true)) {
      this.#bytes[this.#end++] = QUOTE;
      return;
    }
    this.#end = start + this.#bytes.write(JSON.stringify(text), start);
  }

  /** As JSON writes it. */
  number(value: number): void {
    this.#reserve(LONGEST_NUMBER);
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
      this.#end += this.#bytes.write(JSON.stringify(value), this.#end, "latin1");
      return;
    }
    if (value < 0) this.#bytes[this.#end++] = MINUS;
    const size = Math.abs(value);
    const high = size < BILLION ? 0 : Math.floor(size / BILLION);
    if (high > 0) this.#digits(high, digitsOf(high));
    const low = size - high * BILLION;
    this.#digits(low, high > 0 ? 9 : digitsOf(low));
  }

  /** With leading zeros, up to nine digits and nine more. */
  padded(value: number, width: number): void {
    this.#reserve(LONGEST_NUMBER);
    const high = Math.floor(value / BILLION);
    this.#digits(high, width - 9);
    this.#digits(value - high * BILLION, 9);
  }

  /** In binary, the high byte first; not negative. */
  integer(value: number, bytes: number): void {
    this.#reserve(bytes);
    for (let left = bytes - 1; left >= 0; left -= 1) this.#bytes[this.#end++] = value >>> (8 * left);
  }

  /** Eight hexadecimal digits. */
  hex(value: number): void {
    this.#reserve(LONGEST_NUMBER);
    for (let shift = 28; shift >= 0; shift -= 4) {
      const digit = (value >>> shift) & 15;
      this.#bytes[this.#end++] = digit + (digit < 10 ? ZERO : A_AFTER_TEN);
    }
  }

  #digits(value: number, count: number): void {
    let rest = value | 0;
    for (let at = this.#end + count - 1; at >= this.#end; at -= 1) {
      const next = (rest / 10) | 0;
      this.#bytes[at] = ZERO + rest - next * 10;
      rest = next;
    }
    this.#end += count;
  }

  /** False, and nothing written, where a character needs more than itself. */
  #ascii(text: string, inJson: boolean): boolean {
    const bytes = this.#bytes;
    const start = this.#end;
    for (let i = 0; i < text.length; i += 1) {
      const code = codeAt(text, i);
      if (code > LAST_ASCII) return false;
      if (inJson && (code < FIRST_PRINTABLE || code === QUOTE || code === BACKSLASH)) return false;
      bytes[start + i] = code;
    }
    this.#end = start + text.length;
    return true;
  }

  #reserve(bytes: number): void {
    const wanted = this.#end + bytes;
    if (wanted <= this.#bytes.length) return;
    const wider = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(wider, 0, 0, this.#end);
    this.#bytes = wider;
  }
}

function digitsOf(value: number): number {
  let count = 1;
  for (let bound = 10; value >= bound && count < 10; bound *= 10) count += 1;
  return count;
}
