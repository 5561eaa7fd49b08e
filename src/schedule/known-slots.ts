/**
 * From when on the ledger surely still knows what became of a job's slots. Behind that a finished slot has no record any
 * more, exactly like one that never ran: it must not be run.
 *
 * A record is kept for as long as `keep` was when it was settled. So a release with a longer `keep` knows no more of the
 * past than the release before it: a note in the ledger says since when `keep` has been what it is.
 */
import { LONGEST_DURATION_MS } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { deriveKey } from "../core/key.ts";
import { type NoteName, readNote, writeNote } from "../core/ledger-note.ts";
import { instantOf, type Store, type Stored } from "../core/store.ts";

export interface KnownSlotsOptions {
  readonly store: Store;
  readonly tenant: string;
  readonly secret: string | Uint8Array | undefined;
  readonly job: string;
  /** null: forever. */
  readonly keepMs: number | null;
  /** What slots were kept for by releases that wrote no note. */
  readonly keepBefore: number | null;
  /** When the job was first seen by anybody. */
  readonly since: () => Promise<number>;
}

interface Remembered {
  /** What slots are kept for now; null: forever. */
  readonly keepMs: number | null;
  /** Slots before this were kept for a shorter time; null: there are none. */
  readonly from: number | null;
}

const ACTION = "nevertwice.job";
const MAX_SWAPS = 20;
const HOUR_MS = 3_600_000;

export class KnownSlots {
  readonly #options: KnownSlotsOptions;
  #remembered: Promise<Remembered> | null = null;

  constructor(options: KnownSlotsOptions) {
    this.#options = options;
  }

  /** Instants from here on (epoch ms). */
  async from(): Promise<number> {
    this.#remembered ??= this.#load().catch((error: unknown) => {
      this.#remembered = null;
      throw error;
    });
    const { from } = await this.#remembered;
    const { keepMs, store } = this.#options;
    if (keepMs === null) return from ?? Number.NEGATIVE_INFINITY;
    // A record that expires between this answer and the claim would be as bad as one that is gone.
    const margin = Math.min(HOUR_MS, keepMs / 8);
    return Math.max(from ?? Number.NEGATIVE_INFINITY, store.now() - keepMs + margin);
  }

  async #load(): Promise<Remembered> {
    const { store, tenant, secret, job, keepMs } = this.#options;
    const key = deriveKey({ tenant, action: ACTION, version: 1, scope: null, parts: [job, "keep"], secret });
    const name: NoteName = { key, tenant, action: ACTION, keepMs: LONGEST_DURATION_MS };
    let [note = null] = (await store.read([key])) as (Stored | null)[];
    for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
      const at = instantOf(store);
      const text = readNote(note?.record ?? null, at);
      const before = text === null ? await this.#beforeNotes() : (JSON.parse(text) as Remembered);
      const now = { keepMs, from: fromWith(before, keepMs, at.now) };
      if (text !== null && before.keepMs === keepMs) return before;
      const record = writeNote(note?.record ?? null, name, JSON.stringify(now), at);
      const [result] = await store.write([{ record, expected: note?.version ?? null }]);
      if (result?.ok) return now;
      note = result?.current ?? null;
    }
    throw configError(
      `job ${JSON.stringify(job)}: its record in the ledger kept changing under this call. Call again.`,
    );
  }

  async #beforeNotes(): Promise<Remembered> {
    const { store, since, keepMs, keepBefore } = this.#options;
    // A job that begins now has nothing behind it.
    const asked = store.now();
    const isNew = (await since()) >= asked;
    return { keepMs: isNew ? keepMs : keepBefore, from: null };
  }
}

/** What was settled under a shorter keep is known for that time only. */
function fromWith(before: Remembered, keepMs: number | null, now: number): number | null {
  if (before.keepMs === null || (keepMs !== null && keepMs <= before.keepMs)) return before.from;
  return Math.max(before.from ?? Number.NEGATIVE_INFINITY, now - before.keepMs);
}
