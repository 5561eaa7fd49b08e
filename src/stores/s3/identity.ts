/**
 * A ledger that was emptied or replaced under a running program must not be taken for one in which nothing was done yet.
 * An object beside the records names the ledger. It is created with the first use and read again, at most every few
 * seconds, before any request: lists and counts of a lost ledger are refused like its writes. An object store has no
 * transactions: what is inserted between two reads is not noticed.
 */
import { randomUUID } from "node:crypto";
import { NevertwiceError } from "../../core/errors.ts";
import type { S3Client } from "./client.ts";

const READ_EVERY_MS = 5_000;

export class S3Identity {
  readonly #client: S3Client;
  readonly #name: string;
  readonly #where: string;
  readonly #monotonic: () => number;
  #id: string | null = null;
  #readAt = 0;
  #reading: Promise<void> | null = null;

  constructor(options: { client: S3Client; name: string; where: string; monotonic: () => number }) {
    this.#client = options.client;
    this.#name = options.name;
    this.#where = options.where;
    this.#monotonic = options.monotonic;
  }

  /** Reads the ledger's name, or gives it one. */
  async establish(): Promise<void> {
    if (this.#id !== null) return;
    const made = `{"nevertwice":1,"ledger":"${randomUUID()}"}`;
    const found = await this.#client.get(this.#name);
    if (found === null) await this.#client.put(this.#name, made, { ifNoneMatch: "*" });
    // Another program may have been first: what is there counts.
    this.#id = found?.text ?? (await this.#client.get(this.#name))?.text ?? made;
    this.#readAt = this.#monotonic();
  }

  /** Rejects where the ledger is no longer the one that this program began with. */
  async check(): Promise<void> {
    if (this.#monotonic() - this.#readAt < READ_EVERY_MS) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    await this.#reading;
  }

  async #read(): Promise<void> {
    const found = await this.#client.get(this.#name);
    if (found?.text !== this.#id) throw this.#lost(found === null ? "was emptied" : "was replaced by another one");
    this.#readAt = this.#monotonic();
  }

  #lost(what: string): NevertwiceError {
    return new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the ledger ${this.#where} ${what} while this program used it: the object ${this.#name} is not the one it began with. Nothing was run: the records that were lost no longer guard their effects, which could happen twice. Restore the objects; to go on deliberately with what is there now, start the program again.`,
    );
  }
}
