/** Whether a record of an order may begin: everything before it is settled. */
import { isAhead, isSettled, isUnplaced, settledFromOutside } from "../core/order.ts";
import { type Instant, type LedgerRecord, leaseAlive } from "../core/record.ts";
import type { Stored, TransactionView } from "../core/store.ts";
import type { Ledger } from "./ledger.ts";
import { keepNote, place, type Swaps } from "./order-place.ts";

export interface Turn {
  /** The record with its place, as it is in the ledger; null: it is gone. */
  readonly stored: Stored | null;
  /** The record it has to wait for; null: it may begin. */
  readonly before: LedgerRecord | null;
}

// Records that were settled from outside are looked behind; more of them in a row than this are not to be expected.
const MOST_LOOKS = 1_000;

export function swapsOf(ledger: Ledger): Swaps {
  return {
    read: (keys) => Promise.all(keys.map((key) => ledger.read(key))),
    write: (puts) => ledger.store.write(puts),
    now: () => ledger.instant(),
  };
}

export function swapsWithin(ledger: Ledger, view: TransactionView): Swaps {
  return { read: (keys) => view.read(keys), write: (puts) => view.write(puts), now: () => ledger.instant() };
}

/** Once a turn has come it stays: whatever is enqueued or brought back later gets a higher place. */
export async function turnOf(swaps: Swaps, seen: Stored): Promise<Turn> {
  const stored = isUnplaced(seen.record) ? await place(swaps, seen) : seen;
  if (stored === null) return { stored, before: null };
  return { stored, before: await standsBefore(swaps, stored.record) };
}

async function standsBefore(swaps: Swaps, mine: LedgerRecord): Promise<LedgerRecord | null> {
  let key = mine.terms?.after;
  for (let look = 0; key !== undefined && look < MOST_LOOKS; look += 1) {
    const [found = null] = await swaps.read([key]);
    // Seen without a place, a slow enqueuer may still write its old one: placed first, then judged.
    const unplaced = found !== null && found.record.terms?.line === mine.terms?.line && isUnplaced(found.record);
    const other = unplaced ? await place(swaps, found) : found;
    // Gone, or behind this one by now: it was settled at its turn, and so was everything before it.
    if (other === null || !isAhead(other.record, mine)) return null;
    if (!isSettled(other.record)) return other.record;
    if (!settledFromOutside(other.record)) return null;
    key = other.record.terms?.after;
  }
  return null;
}

const NEXT_IN_ORDER_MS = 50;
// A doubt, or a silent holder, has to be settled first: looked at now and then.
const DOUBT_AHEAD_MS = 5_000;

/** When to look again whether `before` is settled. */
export function lookAgainAt(before: LedgerRecord, at: Instant): number {
  if (before.state === "pending") return Math.max(at.now, before.dueAt ?? 0) + NEXT_IN_ORDER_MS;
  const silent = before.state === "unknown" || !leaseAlive(before, at);
  return at.now + (silent ? DOUBT_AHEAD_MS : NEXT_IN_ORDER_MS);
}

/** Whether `before` is run, or could be, right now: not put off to a later time, and not in doubt. */
export function isUnderWay(before: LedgerRecord, at: Instant): boolean {
  if (before.state === "pending") return before.queued && (before.dueAt ?? 0) <= at.now;
  return (before.state === "claimed" || before.state === "sent") && leaseAlive(before, at);
}

const CHECKED_EVERY_MS = 86_400_000;
const MOST_REMEMBERED = 10_000;
const keptNotes = new WeakMap<Ledger, Map<string, number>>();

/** Called when a record is put off because of its order; looks at the order's note once a day. */
export async function keepOrder(ledger: Ledger, waiting: LedgerRecord): Promise<void> {
  const line = waiting.terms?.line;
  if (line === undefined) return;
  const checked = keptNotes.get(ledger) ?? new Map<string, number>();
  keptNotes.set(ledger, checked);
  const { now } = ledger.instant();
  if (now - (checked.get(line) ?? Number.NEGATIVE_INFINITY) < CHECKED_EVERY_MS) return;
  if (checked.size >= MOST_REMEMBERED) checked.clear();
  checked.set(line, now);
  await keepNote(swapsOf(ledger), waiting);
}
