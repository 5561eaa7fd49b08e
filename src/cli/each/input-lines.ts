/** The lines of the inputs of `each`: which line an input came from, and those that are no input. */
import type { Line } from "../json-lines.ts";

// As many as each() keeps of the inputs that failed.
const MOST_KEPT = 1_000;

export class InputLines {
  /** The numbers of broken lines, up to a limit. */
  readonly broken: number[] = [];
  brokenCount = 0;
  #inputs = 0;
  /** From which input on the line is how far ahead. Only blank and broken lines add to it. */
  readonly #ahead: { readonly from: number; readonly by: number }[] = [];

  /** Whether the line is an input. */
  take({ number, broken }: Line): boolean {
    if (broken === undefined) {
      const by = number - this.#inputs;
      if (this.#ahead.at(-1)?.by !== by) this.#ahead.push({ from: this.#inputs, by });
      this.#inputs += 1;
      return true;
    }
    this.brokenCount += 1;
    if (this.broken.length < MOST_KEPT) this.broken.push(number);
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
