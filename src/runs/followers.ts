/** The steps after one that was brought back. */
import { moveToEnd, type Swaps } from "../engine/order-place.ts";

/**
 * What is brought back goes to the end of the subject's order, behind steps that may not be due for weeks. So those steps
 * follow it there, one after the other. One that cannot be moved is under way, or was changed meanwhile: it gives up its
 * place by itself when it is due, and so do the ones after it.
 */
export class Followers {
  readonly #swaps: Swaps;
  #moves = false;
  #hasFailed = false;

  constructor(swaps: Swaps) {
    this.#swaps = swaps;
  }

  broughtBack(): void {
    this.#moves = true;
  }

  async keepBehind(key: string): Promise<void> {
    if (this.#moves && !this.#hasFailed) this.#hasFailed = !(await moveToEnd(this.#swaps, key));
  }
}
