/**
 * What the table already holds of a record, so that a settle does not send it again: the input, the draft and the
 * fingerprint of a claim that this process wrote or read. An input of 200 KB would otherwise travel, and be stored anew,
 * at every heartbeat.
 *
 * A fact is about one revision of one key, and a write that relies on it names that revision: where the row has moved
 * on, the write conflicts.
 */
import type { LedgerRecord } from "../core/record.ts";
import type { Put, Stored } from "../core/store.ts";
import { keyHex } from "./postgres-key.ts";
import { keepClass, movingValues, type SqlText } from "./postgres-row.ts";

// Records under way at once. Past that the oldest are forgotten, and their settles send everything again.
const MOST_HELD = 4_096;

interface Held {
  readonly record: LedgerRecord;
  readonly rev: number;
  readonly hex: string;
  /** The row's changing columns as they were written; null: not kept, made again when asked for. */
  readonly moving: readonly SqlText[] | null;
}

export class Lineage {
  readonly #held = new Map<string, Held>();

  /** The key as SQL takes it; converting it costs more than remembering it. */
  hexOf(key: string): string {
    return this.#held.get(key)?.hex ?? keyHex(key);
  }

  keep({ record, version }: Stored, hex: string, moving: readonly SqlText[] | null = null): void {
    const { key, state } = record;
    // Settled: nothing is written after it.
    if (state === "confirmed") {
      this.#held.delete(key);
      return;
    }
    this.#held.set(key, { record, rev: version, hex, moving });
    if (this.#held.size > MOST_HELD) for (const oldest of this.#held.keys()) return void this.#held.delete(oldest);
  }

  /** The row's changing columns, where it has all of the record that a plain settle leaves alone; else null. */
  before({ record, expected }: Put, now: number): readonly SqlText[] | null {
    const held = this.#held.get(record.key);
    if (held === undefined || held.rev !== expected || !alike(held.record, record)) return null;
    return held.moving ?? movingValues(held.record, held.rev, now);
  }
}

/** The same objects, not equal ones: a record hands on to the next what a transition does not touch. */
function alike(held: LedgerRecord, record: LedgerRecord): boolean {
  return (
    held.fingerprint === record.fingerprint &&
    held.input === record.input &&
    held.draft === record.draft &&
    held.history === record.history &&
    held.doubted === record.doubted &&
    held.version === record.version &&
    held.createdAt === record.createdAt &&
    held.keepMs === record.keepMs &&
    held.queued === record.queued &&
    held.terms === record.terms &&
    held.tenant === record.tenant &&
    keepClass(held) === keepClass(record)
  );
}
