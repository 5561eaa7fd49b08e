/**
 * What workers have to agree on across processes (who stands last in a line, who holds a slot of a destination) lies in
 * the ledger as well: a note, swapped like any record. It is settled from the start, so that no sweep, listing or worker
 * takes it for an intent, and it goes once nobody has touched it for as long as it is kept.
 */
import { entryAction } from "./entry-name.ts";
import { BLANK_RECORD, expired, type Instant, type LedgerRecord } from "./record.ts";

/** Beginnings of the actions of notes. What lists, counts or runs intents leaves them out. */
export const NOTE_ACTIONS: readonly string[] = ["nevertwice.", entryAction("since", "")];

export function isNote(action: string): boolean {
  return NOTE_ACTIONS.some((beginning) => action.startsWith(beginning));
}

export interface NoteName {
  readonly key: string;
  readonly tenant: string;
  /** Listed under this action: "nevertwice.line", "nevertwice.limit". */
  readonly action: string;
  /** Null: until it is written with another one. */
  readonly keepMs: number | null;
}

export function writeNote(before: LedgerRecord | null, name: NoteName, json: string, at: Instant): LedgerRecord {
  const { key, tenant, action, keepMs } = name;
  return {
    ...BLANK_RECORD,
    key,
    tenant,
    action,
    createdAt: before?.createdAt ?? at.now,
    updatedAt: at.now,
    settledAt: at.now,
    expiresAt: keepMs === null ? null : at.now + keepMs,
    keepMs,
    result: { json },
  };
}

/** What the note says; null where there is none, or it is past its keep. */
export function readNote(record: LedgerRecord | null, at: Instant): string | null {
  if (record === null || expired(record, at.now) || record.result === null) return null;
  return "json" in record.result ? record.result.json : null;
}
