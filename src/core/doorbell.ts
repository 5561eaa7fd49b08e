/**
 * The key under which idle workers wait for new work of an action, where a store can wake those who watch a key. No record
 * has such a key: a store may tell by it that work is waited for, and not the end of an attempt.
 */
import { deriveKey } from "./key/key.ts";
import type { LedgerRecord } from "./record.ts";

const PREFIX = "nt1_";
const MARK = ".due";
const bells = new Map<string, string>();
const tenantBells = new Map<string, string>();
// Action names are few; a program that makes them up gets its bells derived again.
const MOST_BELLS = 1_000;

/** `tenant`: for work of this tenant alone; for everybody's where undefined. */
export function doorbellOf(action: string, tenant?: string): string {
  if (tenant === undefined) return bellOf(bells, action, [action]);
  return bellOf(tenantBells, JSON.stringify([action, tenant]), [action, tenant]);
}

function bellOf(known: Map<string, string>, name: string, parts: readonly string[]): string {
  let bell = known.get(name);
  if (bell === undefined) {
    const key = deriveKey({ tenant: "", action: "nevertwice.due", version: 1, scope: null, parts });
    bell = `${key.slice(PREFIX.length)}${MARK}`;
    if (known.size >= MOST_BELLS) known.clear();
    known.set(name, bell);
  }
  return bell;
}

/** The bells that this record's work rings: for those who serve everybody, and for those who serve its tenant. */
export function bellsOf({ action, tenant }: LedgerRecord): readonly string[] {
  return tenant === "" ? [doorbellOf(action)] : [doorbellOf(action), doorbellOf(action, tenant)];
}

export function isDoorbell(key: string): boolean {
  return key.endsWith(MARK);
}

/** Whether writing this record is news for a worker that has nothing to do. */
export function ringsBell({ state, queued, dueAt, updatedAt }: LedgerRecord): boolean {
  return state === "pending" && queued && (dueAt ?? 0) <= updatedAt;
}
