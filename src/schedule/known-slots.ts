/**
 * From when on the ledger surely still knows the outcome of a job's slots. Before that a finished slot has no record any
 * more, exactly like one that never ran: it must not be run.
 *
 * A note in the ledger records how long slots were kept (see keep-steps.ts). It is read before every slot, because a
 * process of another release may have changed it, and written before a slot is run that it does not cover.
 */
import { configError } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import { type NoteName, readNote, writeNote } from "../core/note.ts";
import type { LedgerRecord } from "../core/record.ts";
import { instantOf, type Store, type Stored } from "../core/store.ts";
import { jobAction } from "./job-action.ts";
import { type KeptSlots, knownFrom, withRun } from "./keep-steps.ts";

export interface KnownSlotsOptions {
  readonly store: Store;
  readonly tenant: string;
  readonly secret: string | Uint8Array | undefined;
  readonly job: string;
  /** null: forever. */
  readonly keepMs: number | null;
  /** What slots were kept for by releases that wrote no note, where none of their records says less. */
  readonly keepBefore: number | null;
  /** When the job was first seen by anybody. Without it a job is new when the ledger has no record of its slots. */
  readonly since?: () => Promise<number>;
}

const ACTION = "nevertwice.job";
const MAX_SWAPS = 20;
const RECORDS_READ = 100;

export class KnownSlots {
  readonly #options: KnownSlotsOptions;

  constructor(options: KnownSlotsOptions) {
    this.#options = options;
  }

  /** Instants from here on (epoch ms). The slot of `at` may be run after this call, and not without it. */
  async from(at: number): Promise<number> {
    const { store, tenant, secret, job, keepMs } = this.#options;
    const key = deriveKey({ tenant, action: ACTION, version: 1, scope: null, parts: [job, "keep"], secret });
    const name: NoteName = { key, tenant, action: ACTION, keepMs: null };
    let [note = null] = (await store.read([key])) as (Stored | null)[];
    for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
      const instant = instantOf(store);
      const text = readNote(note?.record ?? null, instant);
      const before = text === null ? await this.#beforeNotes() : keptSlotsOf(text, (note as Stored).record);
      const kept = withRun(before, { keepMs, at, now: instant.now });
      if (text !== null && kept === before) return knownFrom(kept, instant.now);
      const record = writeNote(note?.record ?? null, name, JSON.stringify(kept), instant);
      const [result] = await store.write([{ record, expected: note?.version ?? null }]);
      if (result?.ok) return knownFrom(kept, instant.now);
      note = result?.current ?? null;
    }
    throw configError(
      `job ${JSON.stringify(job)}: its record in the ledger kept changing under this call. Call again.`,
    );
  }

  async #beforeNotes(): Promise<KeptSlots> {
    const { store, since, keepMs, keepBefore, job, tenant } = this.#options;
    const asked = store.now();
    const isFirst = since === undefined || (await since()) >= asked;
    const { items } = await store.list({ action: jobAction(job), tenant, limit: RECORDS_READ });
    // A job that begins now has no past.
    if (isFirst && items.length === 0) return { steps: [{ since: null, keepMs }], ahead: null };
    const keeps = [keepBefore, ...items.map(({ record }) => record.keepMs)].filter((one) => one !== null);
    return { steps: [{ since: null, keepMs: keeps.length === 0 ? null : Math.min(...keeps) }], ahead: null };
  }
}

/** The note as it is written now; the first form of it said `keepMs`, and `from` where an earlier keep was shorter. */
function keptSlotsOf(text: string, { updatedAt }: LedgerRecord): KeptSlots {
  const note = JSON.parse(text) as KeptSlots | { readonly keepMs: number | null; readonly from: number | null };
  if ("steps" in note) return note;
  // That form did not say how long the shorter keep was: only what was run after the change is surely kept.
  const since = note.from === null ? null : updatedAt;
  return { steps: [{ since, keepMs: note.keepMs }], ahead: null };
}
