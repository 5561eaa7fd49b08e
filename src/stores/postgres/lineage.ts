/**
 * What the table already holds of a record, so that a settle does not send it again: the input, the draft and the
 * fingerprint of a claim that this process wrote or read. An input of 200 KB would otherwise travel, and be stored anew,
 * at every heartbeat.
 *
 * A fact is about one revision of one key, and a write that relies on it names that revision: where the row has moved
 * on, the write conflicts.
 */
import { codeAt } from "../../core/key/code-at.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Put } from "../../core/store.ts";
import { keepClass } from "./sql/row.ts";

// Each key has one set of places, found by its end: many more places than records under way at once, and enough in a set
// that even a busy worker's records find one (one place for each key lost one record in forty, and with it every batch
// was two statements in one). Where a set is full the oldest is forgotten, and its settle sends everything again. Not a
// Map: what thousands come and go through would leave old tables behind, each keeping what was in it alive until the
// next full collection.
const SETS = 1_024;
const PLACES = 8;
// Enough of a digest to spread keys evenly; the end of any other text.
const TELLING_CHARS = 8;

export interface Held {
  readonly record: LedgerRecord;
  readonly rev: number;
  readonly hex: string;
}

export class Lineage {
  /** The places of a set stand side by side, the newest first. */
  readonly #held: (Held | null)[] = new Array(SETS * PLACES).fill(null);

  /** What is known of a key's row; null: nothing. */
  of(key: string): Held | null {
    const place = this.#placeOf(key);
    return place < 0 ? null : (this.#held[place] as Held);
  }

  keep(record: LedgerRecord, rev: number, hex: string): void {
    const held = this.#held;
    const known = this.#placeOf(record.key);
    // Settled: nothing is written after it. Queued: whoever takes it has just read it.
    const next = record.state === "confirmed" || record.state === "pending" ? null : { record, rev, hex };
    if (known >= 0) held[known] = next;
    else if (next !== null) {
      const first = setOf(record.key) * PLACES;
      let free = first;
      while (free < first + PLACES - 1 && held[free] !== null) free += 1;
      for (let at = free; at > first; at -= 1) held[at] = held[at - 1] as Held;
      held[first] = next;
    }
  }

  /** -1: it is not here. */
  #placeOf(key: string): number {
    const first = setOf(key) * PLACES;
    for (let at = first; at < first + PLACES; at += 1) if (this.#held[at]?.record.key === key) return at;
    return -1;
  }
}

/** The record the row holds, where it has all that a plain settle leaves alone; else null. */
export function beforeOf(held: Held | null, { record, expected }: Put): LedgerRecord | null {
  return held !== null && held.rev === expected && alike(held.record, record) ? held.record : null;
}

function setOf(key: string): number {
  let hash = 0;
  for (let at = Math.max(0, key.length - TELLING_CHARS); at < key.length; at += 1)
    hash = (hash * 31 + codeAt(key, at)) | 0;
  return hash & (SETS - 1);
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
    held.agent === record.agent &&
    keepClass(held) === keepClass(record)
  );
}
