/**
 * A record that was forgotten on purpose: for privacy, or for a fresh start. Stores only swap records, so it is swapped for one
 * that says nothing and guards nothing, and the next sweep removes that. Who decided it, when and why is kept in a note of its
 * own, which says nothing of what the record held.
 */
import { deriveKey } from "./key/key.ts";
import { type NoteName, readNote, writeNote } from "./note.ts";
import { BLANK_RECORD, type Instant, type LedgerRecord, type State } from "./record.ts";

/** What emptied records have in place of an agent. */
const FORGOTTEN_AGENT = "nevertwice.forgotten";
const NOTE_ACTION = "nevertwice.forgotten";
/** How long it is known who forgot a record. */
export const FORGOTTEN_KEEP_MS = 365 * 86_400_000;
// A key that is freed again and again in development.
const MOST_KEPT = 10;

/**
 * Only what the key fixes is left, which stores do not write a second time: tenant, action, version and scope. It is
 * confirmed, so that the late answer of an earlier attempt finds it final and writes nothing into it; and it is past its keep.
 */
export function emptied(record: LedgerRecord, at: Instant): LedgerRecord {
  const { key, tenant, action, version, scope, attempt, fence, createdAt } = record;
  return {
    ...BLANK_RECORD,
    key,
    tenant,
    action,
    version,
    scope,
    agent: FORGOTTEN_AGENT,
    attempt,
    // A call that begins anew counts on from here: attempts from before stay refused.
    fence,
    createdAt,
    updatedAt: at.now,
    settledAt: at.now,
    expiresAt: at.now,
    keepMs: 0,
  };
}

export function isEmptied({ state, agent, fingerprint }: LedgerRecord): boolean {
  return state === "confirmed" && agent === FORGOTTEN_AGENT && fingerprint.guarded === "";
}

/** In doubt, also where no sweep has said so yet, or beside a later attempt. */
export function mayHaveHappenedUnsettled({ state, doubted }: LedgerRecord): boolean {
  return state === "unknown" || state === "sent" || doubted;
}

/** What is known of a record that was forgotten. */
export interface ForgottenEntry {
  readonly at: number;
  readonly by: string;
  readonly reason: string;
  /** Of the record. */
  readonly action: string;
  readonly was: State;
}

/** By the record's key alone, which names its tenant already. Without a secret: it is a digest of a digest. */
export function forgottenNoteKey(key: string): string {
  return deriveKey({ tenant: "", action: NOTE_ACTION, version: 1, scope: null, parts: [key], secret: undefined });
}

/**
 * Newest last; none: it was never forgotten, or that is past its keep. `tenant`: who asks ("": anybody's note may be read).
 */
export function forgottenEntries(note: LedgerRecord | null, at: Instant, tenant = ""): readonly ForgottenEntry[] {
  const text = tenant === "" || note?.tenant === tenant ? readNote(note, at) : null;
  if (text === null) return [];
  try {
    const { entries } = JSON.parse(text) as { entries?: unknown };
    return Array.isArray(entries) ? (entries as ForgottenEntry[]) : [];
  } catch {
    return [];
  }
}

export function withForgotten(
  before: LedgerRecord | null,
  { key, tenant }: Pick<LedgerRecord, "key" | "tenant">,
  entry: ForgottenEntry,
  at: Instant,
): LedgerRecord {
  const entries = [...forgottenEntries(before, at), entry].slice(-MOST_KEPT);
  const name: NoteName = { key: forgottenNoteKey(key), tenant, action: NOTE_ACTION, keepMs: FORGOTTEN_KEEP_MS };
  return writeNote(before, name, JSON.stringify({ entries }), at);
}

/** The note without an entry that turned out not to be so. */
export function withoutForgotten(note: LedgerRecord, entry: ForgottenEntry, at: Instant): LedgerRecord {
  const entries = forgottenEntries(note, at).filter((one) => one.at !== entry.at || one.by !== entry.by);
  const name = {
    key: note.key,
    tenant: note.tenant,
    action: NOTE_ACTION,
    keepMs: entries.length === 0 ? 0 : FORGOTTEN_KEEP_MS,
  };
  return writeNote(note, name, JSON.stringify({ entries }), at);
}
