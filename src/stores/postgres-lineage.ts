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

// A place for each key, and many more of them than records under way at once: where two keys have one place the older is
// forgotten, and its settle sends everything again. Not a Map: what thousands come and go through would leave old tables
// behind, each keeping what was in it alive until the next full collection.
const PLACES = 8_192;
// Enough of a digest to spread keys evenly; the end of any other text.
const TELLING_CHARS = 8;

interface Held {
  readonly record: LedgerRecord;
  readonly rev: number;
  readonly hex: string;
  /** The row's changing columns as they were written; null: not kept, made again when asked for. */
  readonly moving: readonly SqlText[] | null;
}

export class Lineage {
  readonly #held: (Held | null)[] = new Array(PLACES).fill(null);

  /** The key as SQL takes it; converting it costs more than remembering it. */
  hexOf(key: string): string {
    return this.#of(key)?.hex ?? keyHex(key);
  }

  keep({ record, version }: Stored, hex: string, moving: readonly SqlText[] | null = null): void {
    const { key, state } = record;
    // Settled: nothing is written after it.
    if (state !== "confirmed") this.#held[placeOf(key)] = { record, rev: version, hex, moving };
    else if (this.#of(key) !== null) this.#held[placeOf(key)] = null;
  }

  #of(key: string): Held | null {
    const held = this.#held[placeOf(key)] ?? null;
    return held?.record.key === key ? held : null;
  }

  /** The row's changing columns, where it has all of the record that a plain settle leaves alone; else null. */
  before({ record, expected }: Put, now: number): readonly SqlText[] | null {
    const held = this.#of(record.key);
    if (held === null || held.rev !== expected || !alike(held.record, record)) return null;
    return held.moving ?? movingValues(held.record, held.rev, now);
  }
}

function placeOf(key: string): number {
  let hash = 0;
  for (let at = Math.max(0, key.length - TELLING_CHARS); at < key.length; at += 1)
    hash = (hash * 31 + key.charCodeAt(at)) | 0;
  return hash & (PLACES - 1);
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
