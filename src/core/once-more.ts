/**
 * "Once more" for a tool's call that is done: asked for by a model, granted or denied by a person. One note for each record says how
 * it stands; a grant lets the next identical call run as the next version, whose record may get a note of its own. So the version
 * that a call gets follows from the ledger alone, and a grant that is given twice is one. A record that guards until its answer has
 * arrived has no versions: a grant ends its guard, as the arrival would have. A note is about one record, and not about a later one
 * with the same key.
 */
import { deriveKey } from "./key/key.ts";
import { readNote, writeNote } from "./note.ts";
import type { Instant, LedgerRecord } from "./record.ts";

export const ONCE_MORE_ACTION = "nevertwice.once-more";
const REQUEST_KEEP_MS = 30 * 86_400_000;

/** requested: a person has to decide · granted: the next identical call runs · denied: it does not */
export type OnceMoreState = "requested" | "granted" | "denied";

export interface OnceMore {
  readonly state: OnceMoreState;
  /** Of the record that it is about. */
  readonly key: string;
  readonly action: string;
  readonly version: number;
  readonly scope: string | null;
  /** Which of the records that the key had. Absent: the note is of a release before these. */
  readonly fence?: number;
  readonly settledAt?: number | null;
  /** Who asked for it, if anybody did: in the model's words. */
  readonly asked?: { readonly at: number; readonly reason: string; readonly agent: string | null };
  readonly decided?: { readonly at: number; readonly by: string; readonly reason: string };
  /** The key of what was begun under the grant. */
  readonly next?: string;
}

/** By the record's key alone, which names its tenant already. Without a secret: it is a digest of a digest. */
export function onceMoreKey(key: string): string {
  return deriveKey({ tenant: "", action: ONCE_MORE_ACTION, version: 1, scope: null, parts: [key], secret: undefined });
}

/** What a note begins with. A sweep lets the fence begin again, so the time counts too. */
export function about({ key, action, version, scope, fence, settledAt }: LedgerRecord) {
  return { key, action, version, scope, fence, settledAt };
}

/** Whether a note is about this very record, and not about one before it. */
export function isAbout({ fence, settledAt }: OnceMore, record: LedgerRecord): boolean {
  return fence === undefined || (fence === record.fence && settledAt === record.settledAt);
}

export function readOnceMore(note: LedgerRecord | null, at: Instant): OnceMore | null {
  const text = readNote(note, at);
  if (text === null) return null;
  try {
    const found = JSON.parse(text) as OnceMore | null;
    const { state, key } = found ?? {};
    return typeof key === "string" && (state === "requested" || state === "granted" || state === "denied")
      ? found
      : null;
  } catch {
    return null;
  }
}

/** A grant is known for as long as its record is. */
export function writeOnceMore(
  before: LedgerRecord | null,
  record: Pick<LedgerRecord, "tenant" | "expiresAt">,
  note: OnceMore,
  at: Instant,
): LedgerRecord {
  const { tenant, expiresAt } = record;
  const left = expiresAt === null ? null : Math.max(expiresAt - at.now, REQUEST_KEEP_MS);
  const keepMs = note.state === "granted" ? left : REQUEST_KEEP_MS;
  return writeNote(
    before,
    { key: onceMoreKey(note.key), tenant, action: ONCE_MORE_ACTION, keepMs },
    JSON.stringify(note),
    at,
  );
}
