/**
 * Strict order per `orderKey`. Every record of an order has a place, a number that grows, and names the record before it.
 * The order's note in the ledger names the last record and its place. Pure: engine/line.ts reads and swaps.
 *
 * A record waits only for records with a lower place, so no two can wait for each other.
 */
import type { Instant, LedgerRecord, WorkTerms } from "./record.ts";

/** What the note of an order says. */
export interface OrderNote {
  /** The key of the record that was appended last. */
  readonly last: string;
  readonly place: number;
  /** The key of the record before `last`. */
  readonly before: string | null;
}

/**
 * Null where there is no note or it cannot be read. A note past its keep still counts until it is swept: what it says is
 * still the best that is known about the order.
 */
export function readOrder(note: LedgerRecord | null): OrderNote | null {
  if (note === null || note.result === null || !("json" in note.result)) return null;
  try {
    const { last, place, before } = JSON.parse(note.result.json) as Partial<OrderNote>;
    if (typeof last !== "string" || !Number.isSafeInteger(place)) return null;
    return { last, place: place as number, before: typeof before === "string" ? before : null };
  } catch {
    return null;
  }
}

/** The note once `key` is appended. Places begin at the time, so that an order that lost its note goes on above its old places. */
export function appended(order: OrderNote | null, key: string, at: Instant): OrderNote {
  if (order === null) return { last: key, place: Math.floor(at.now), before: null };
  return { last: key, place: order.place + 1, before: order.last };
}

/** Queued in an order, and not in its place yet: nobody may begin it. */
export function isUnplaced({ terms }: Pick<LedgerRecord, "terms">): boolean {
  return terms?.line !== undefined && terms.place === undefined;
}

export function withPlace(record: LedgerRecord, { place, before }: OrderNote): LedgerRecord {
  const { after: _old, ...terms } = record.terms ?? {};
  return { ...record, terms: { ...terms, place, ...(before !== null && { after: before }) } };
}

/** Leaves its place: it goes to the end of its order once somebody places it again. */
export function withoutPlace(terms: WorkTerms | null): WorkTerms | null {
  if (terms?.place === undefined) return terms;
  const { place: _place, after: _after, ...rest } = terms;
  return rest;
}

export function isSettled({ state }: Pick<LedgerRecord, "state">): boolean {
  return state === "confirmed" || state === "failed";
}

/** Whether `other` has a lower place in the same order. */
export function isAhead(other: LedgerRecord, mine: LedgerRecord): boolean {
  const [theirs, own] = [other.terms, mine.terms];
  if (theirs?.line === undefined || theirs.line !== own?.line) return false;
  return theirs.place !== undefined && own.place !== undefined && theirs.place < own.place;
}

const SETTLED_FROM_OUTSIDE = new Set(["late-success", "probed-done", "resolved-done", "resolved-failed"]);

/**
 * Settled by evidence or by a person, not by the attempt whose turn it was. That can happen while records before it are
 * still under way, so those have to be looked at too.
 */
export function settledFromOutside({ history }: LedgerRecord): boolean {
  const latest = history.at(-1);
  return latest !== undefined && SETTLED_FROM_OUTSIDE.has(latest.event);
}

/**
 * Whether a call may not claim a record of an order: its turn must have been seen to come at the place it has. (A worker
 * leases a record first, and then looks at the order.) A dead letter gave up its turn: it has to go back into its order.
 */
export function isOutOfTurn({ terms, state }: LedgerRecord, place: number | undefined): boolean {
  if (terms?.line === undefined) return false;
  return state === "failed" || place === undefined || place !== terms.place;
}
