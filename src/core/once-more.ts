/**
 * "Once more" for a tool's call that is done: asked for by a model, granted or denied by a person. One note for each record says how
 * it stands; a grant lets the next identical call run as the next version, whose record may get a note of its own. So the version
 * that a call gets follows from the ledger alone, and a grant that is given twice is one.
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
  /** Who asked for it, if anybody did: in the model's words. */
  readonly asked?: { readonly at: number; readonly reason: string; readonly agent: string | null };
  readonly decided?: { readonly at: number; readonly by: string; readonly reason: string };
  /** The key of the version that was begun under the grant. */
  readonly next?: string;
}

/** By the record's key alone, which names its tenant already. Without a secret: it is a digest of a digest. */
export function onceMoreKey(key: string): string {
  return deriveKey({ tenant: "", action: ONCE_MORE_ACTION, version: 1, scope: null, parts: [key], secret: undefined });
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
