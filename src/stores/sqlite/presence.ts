/**
 * F13: whether the path still leads to the file that was opened. SQLite goes on working on a file that was deleted or
 * moved, while a new program makes a new ledger at the path, and both would run the same intent. A ledger that is removed
 * or replaced under a running program is a lost ledger, not an empty one.
 */
import { existsSync } from "node:fs";
import { NevertwiceError } from "../../core/errors.ts";
import { identityOf, realPathOf } from "../file/identity.ts";

const EVERY_MS = 250;

export class SqlitePresence {
  readonly #given: string;
  readonly #path: string;
  readonly #inode: string;
  #checkedAt = Number.NEGATIVE_INFINITY;

  /** `given` as the program named it, `path` without symbolic links, as it was opened. */
  constructor(given: string, path: string, inode: string) {
    this.#given = given;
    this.#path = path;
    this.#inode = inode;
  }

  /** The file alone: one call of the system, before each write that lets something run. Its log: now and then. */
  requireFile(now: number): void {
    this.requireNowAndThen(now);
    if (now !== this.#checkedAt && !this.#holds(() => this.#isFile(this.#given))) throw this.#lost();
  }

  /** The file, the path to it and its log; four times a second at most. */
  requireNowAndThen(now: number): void {
    if (now - this.#checkedAt >= EVERY_MS) this.requireAll(now);
  }

  requireAll(now: number): void {
    const log = `${this.#path}-wal`;
    const found = this.#holds(
      () => realPathOf(this.#given) === this.#path && this.#isFile(this.#path) && existsSync(log),
    );
    if (!found) throw this.#lost();
    this.#checkedAt = now;
  }

  #isFile(path: string): boolean {
    return identityOf(path)?.inode === this.#inode;
  }

  #holds(check: () => boolean): boolean {
    try {
      return check();
    } catch {
      return false;
    }
  }

  #lost(): NevertwiceError {
    this.#checkedAt = Number.NEGATIVE_INFINITY;
    return new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger ${this.#path}, its log (-wal) or the path to it was removed or replaced while this program had it open. Nothing was run. Restore the file and start the program again.`,
    );
  }
}
