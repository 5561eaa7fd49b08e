/**
 * The confirmed records that were asked for last. A confirmed record never changes until `keep` is over, so a repeat may be
 * answered without asking the store. Bounded in number and in size. A record gets here by its first repeat, not by its
 * first run: most intents are never repeated, and keeping each for a while costs the garbage collector more than it saves.
 */
import { expired, type Payload } from "../core/record.ts";
import type { Stored } from "../core/store.ts";

const MAX_RECORDS = 1_000;
const MAX_PAYLOAD_CHARS = 4_096;

export class ReplayCache {
  readonly #records = new Map<string, Stored>();

  /** Perhaps expired. Most calls are no repeats, and need not read the clock to hear it. */
  has(key: string): boolean {
    return this.#records.size > 0 && this.#records.has(key);
  }

  get(key: string, now: number): Stored | null {
    const stored = this.#records.get(key);
    if (stored === undefined) return null;
    if (!expired(stored.record, now)) return stored;
    this.#records.delete(key);
    return null;
  }

  delete(key: string): void {
    this.#records.delete(key);
  }

  /** `key`: the one that was asked for, where an alias led to the record. */
  put(stored: Stored, key = stored.record.key): void {
    const { result, state } = stored.record;
    if (state !== "confirmed" || sizeOf(result) > MAX_PAYLOAD_CHARS) return;
    // There already, and it never changes until it expires.
    if (this.#records.get(key)?.record.settledAt === stored.record.settledAt) return;
    // A Map keeps insertion order: the first key is the one that was put longest ago.
    if (this.#records.size >= MAX_RECORDS && !this.#records.has(key)) {
      const oldest = this.#records.keys().next().value;
      if (oldest !== undefined) this.#records.delete(oldest);
    }
    // A replay needs no input; leaving it out keeps the cache small.
    this.#records.set(key, { ...stored, record: { ...stored.record, input: null, draft: null, history: [] } });
  }
}

function sizeOf(payload: Payload | null): number {
  if (payload === null || "omitted" in payload) return 0;
  return "json" in payload ? payload.json.length : payload.sealed.length;
}
