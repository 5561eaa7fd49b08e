/**
 * The confirmed records that were asked for last. A confirmed record does not change until `keep` is over, so a repeat may be
 * answered without asking the store. Bounded in number, in size and in time: another process may have forgotten the record
 * (`nevertwice forget`), so the store is asked again after a minute. A record gets here by its first repeat, not by its
 * first run: most intents are never repeated, and keeping each for a while costs the garbage collector more than it saves.
 */
import { expired, type Payload } from "../core/record.ts";
import type { Stored } from "../core/store.ts";

const MAX_RECORDS = 1_000;
const MAX_PAYLOAD_CHARS = 4_096;
const FRESH_MS = 60_000;

interface Remembered {
  readonly stored: Stored;
  readonly at: number;
}

export class ReplayCache {
  readonly #records = new Map<string, Remembered>();

  /** Perhaps expired. Most calls are no repeats, and need not read the clock to hear it. */
  has(key: string): boolean {
    return this.#records.size > 0 && this.#records.has(key);
  }

  get(key: string, now: number): Stored | null {
    const known = this.#records.get(key);
    if (known === undefined) return null;
    if (isFresh(known, now) && !expired(known.stored.record, now)) return known.stored;
    this.#records.delete(key);
    return null;
  }

  delete(key: string): void {
    this.#records.delete(key);
  }

  /** `key`: the one that was asked for, where an alias led to the record. */
  put(stored: Stored, now: number, key = stored.record.key): void {
    const { result, state } = stored.record;
    if (state !== "confirmed" || sizeOf(result) > MAX_PAYLOAD_CHARS) return;
    const known = this.#records.get(key);
    // There already, as it is.
    if (known?.stored.record.settledAt === stored.record.settledAt && isFresh(known, now)) return;
    // A Map keeps insertion order: the first key is the one that was put longest ago.
    if (this.#records.size >= MAX_RECORDS && !this.#records.has(key)) {
      const oldest = this.#records.keys().next().value;
      if (oldest !== undefined) this.#records.delete(oldest);
    }
    // A replay needs no input; leaving it out keeps the cache small.
    const slim = { ...stored, record: { ...stored.record, input: null, draft: null, history: [] } };
    this.#records.set(key, { stored: slim, at: now });
  }
}

/** A clock that was set back makes nothing fresh. */
function isFresh({ at }: Remembered, now: number): boolean {
  return now >= at && now - at < FRESH_MS;
}

function sizeOf(payload: Payload | null): number {
  if (payload === null || "omitted" in payload) return 0;
  return "json" in payload ? payload.json.length : payload.sealed.length;
}
