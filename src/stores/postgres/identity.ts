/**
 * Which ledger this is. A schema that was dropped and made anew by another program answers like a ledger in which nothing was
 * done yet, and every effect could happen again. So the ledger's id is read again before any request, at most every few
 * seconds: a statement of its own, because the statements that write have no room for it. Lists and counts are no exception: an
 * alert on doubts must not stay quiet because they are gone.
 */
import { performance } from "node:perf_hooks";
import { NevertwiceError } from "../../core/errors.ts";
import type { Connection } from "./client/connection.ts";
import { readState } from "./migrate.ts";

const READ_EVERY_MS = 5_000;

export class PostgresIdentity {
  readonly #options: { readonly schema: string; readonly ledgerId: string; readonly where: string };
  #readAt = performance.now();
  #reading: Promise<void> | null = null;

  constructor(options: { readonly schema: string; readonly ledgerId: string; readonly where: string }) {
    this.#options = options;
  }

  /** Null: it was the right one lately. Otherwise to be waited for; it rejects where it is another one. */
  check(connection: Connection): Promise<void> | null {
    if (this.#options.ledgerId === "" || performance.now() - this.#readAt < READ_EVERY_MS) return null;
    this.#reading ??= this.#read(connection).finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #read(connection: Connection): Promise<void> {
    const { schema, ledgerId, where } = this.#options;
    const state = await readState(connection, schema);
    if (state.ledgerId !== ledgerId)
      throw new NevertwiceError(
        "STORE_UNAVAILABLE",
        `the ledger in ${where} was replaced by another one while this program used it: the schema "${schema}" was dropped and made anew, or restored from another ledger. Nothing was run by this call: records that were lost no longer guard their effects, which could happen twice. Restore the schema; to go on deliberately with what is there now, start the program again.`,
      );
    this.#readAt = performance.now();
  }
}
