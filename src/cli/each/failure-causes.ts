/** Failures by cause, as a run meets them: the first of each cause is worth a line, a thousand more are worth a number. */
import { normalForm } from "../../core/doubt-cause.ts";

// An outage has few causes; errors that all differ would fill the memory.
const MOST_CAUSES = 200;
const LINES_KEPT = 3;
// Each of these is said at once, when it comes up first.
const MOST_SAID = 20;

export interface FailureCause {
  readonly what: "failed" | "in doubt";
  /** The message of the first of them, or the form that all of them have. */
  readonly text: string;
  readonly count: number;
  /** The first few. */
  readonly lines: readonly number[];
  /** Whether the first of them was said. */
  readonly isSaid: boolean;
}

interface Growing {
  readonly what: FailureCause["what"];
  readonly first: string;
  readonly form: string;
  readonly lines: number[];
  readonly isSaid: boolean;
  count: number;
}

export class FailureCauses {
  readonly #causes = new Map<string, Growing>();
  /** Failures of further causes. */
  others = 0;

  /** Whether it is to be said now: the first of its cause. */
  add(what: FailureCause["what"], line: number, message: string): boolean {
    const form = normalForm(message);
    const id = JSON.stringify([what, form]);
    const known = this.#causes.get(id);
    if (known === undefined && this.#causes.size >= MOST_CAUSES) {
      this.others += 1;
      return false;
    }
    if (known === undefined) {
      const isSaid = this.#causes.size < MOST_SAID;
      this.#causes.set(id, { what, first: message, form, count: 1, lines: [line], isSaid });
      return isSaid;
    }
    known.count += 1;
    if (known.lines.length < LINES_KEPT) known.lines.push(line);
    return false;
  }

  /** The most frequent first. */
  list(): FailureCause[] {
    const causes = [...this.#causes.values()].sort((a, b) => b.count - a.count);
    return causes.map(({ what, first, form, count, lines, isSaid }) => ({
      what,
      isSaid,
      text: count === 1 ? first : form,
      count,
      lines: lines.toSorted((a, b) => a - b),
    }));
  }
}
