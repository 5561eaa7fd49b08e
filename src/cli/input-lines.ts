/** The lines of the inputs of `each`: which line an input came from, and those that are no input. */
import type { Line } from "./json-lines.ts";

// As many as each() keeps of the inputs that failed, and no more bytes than a few of the longest lines.
const MOST_KEPT = 1_000;
const MOST_KEPT_BYTES = 16 * 1024 * 1024;

export interface BrokenLine {
  readonly line: number;
  readonly why: string;
  readonly raw: Buffer;
}

export class InputLines {
  /** Broken lines, up to a limit. */
  readonly broken: BrokenLine[] = [];
  brokenCount = 0;
  #keptBytes = 0;
  #inputs = 0;
  /** From which input on the line is how far ahead. Only blank and broken lines add to it. */
  readonly #ahead: { readonly from: number; readonly by: number }[] = [];

  /** Whether the line is an input. */
  take({ number, broken, raw = Buffer.alloc(0) }: Line): boolean {
    if (broken === undefined) {
      const by = number - this.#inputs;
      if (this.#ahead.at(-1)?.by !== by) this.#ahead.push({ from: this.#inputs, by });
      this.#inputs += 1;
      return true;
    }
    this.brokenCount += 1;
    if (this.broken.length < MOST_KEPT && this.#keptBytes + raw.length <= MOST_KEPT_BYTES) {
      this.#keptBytes += raw.length;
      this.broken.push({ line: number, why: broken, raw });
    }
    return false;
  }

  /** The line, counted from 1, of the input with this index, counted from 0. */
  lineOf(index: number): number {
    let [low, high] = [0, this.#ahead.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#ahead[middle]?.from ?? 0) <= index) low = middle;
      else high = middle - 1;
    }
    return index + (this.#ahead[low]?.by ?? 1);
  }
}
