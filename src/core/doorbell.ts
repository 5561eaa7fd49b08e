/**
 * The key under which idle workers wait for new work of an action, where a store can wake those who watch a key. No record
 * has such a key: a store may tell by it that work is waited for, and not the end of an attempt.
 */
import { deriveKey } from "./key.ts";
import type { LedgerRecord } from "./record.ts";

const PREFIX = "nt1_";
const MARK = ".due";
const bells = new Map<string, string>();
// Action names are few; a program that makes them up gets its bells derived again.
const MOST_BELLS = 1_000;

export function doorbellOf(action: string): string {
  let bell = bells.get(action);
  if (bell === undefined) {
    const key = deriveKey({ tenant: "", action: "nevertwice.due", version: 1, scope: null, parts: [action] });
    bell = `${key.slice(PREFIX.length)}${MARK}`;
    if (bells.size >= MOST_BELLS) bells.clear();
    bells.set(action, bell);
  }
  return bell;
}

export function isDoorbell(key: string): boolean {
  return key.endsWith(MARK);
}

/** Whether writing this record is news for a worker that has nothing to do. */
export function ringsBell({ state, queued, dueAt, updatedAt }: LedgerRecord): boolean {
  return state === "pending" && queued && (dueAt ?? 0) <= updatedAt;
}
