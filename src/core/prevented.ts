/**
 * How often a call was answered from the ledger instead of being run, and why. One note per tenant and day has it, by the
 * hour: counts and times, the action's name and the latest key. Nothing of an input, a result or a key's parts.
 */
import { deriveKey } from "./key/key.ts";
import { readNote, writeNote } from "./note.ts";
import type { Absent, Outcome } from "./outcome.ts";
import type { Instant, LedgerRecord } from "./record.ts";

/**
 * done: the first result was given · in-flight: another attempt was under way, or the call joined it · in-doubt: it may have
 * happened · conflict: the same intent with another input · refused: refused for good before · queued: it waits for a worker
 * already · limit: above the tool's limit
 */
export const CAUSES = ["done", "in-flight", "in-doubt", "conflict", "refused", "queued", "limit"] as const;

export type PreventedCause = (typeof CAUSES)[number];

/** Why a call that met this did not run; null: it may be called again. */
export function preventedBy(outcome: Outcome<unknown> | Absent): PreventedCause | null {
  switch (outcome.status) {
    case "done":
      return "done";
    case "in_flight":
      return "in-flight";
    case "unknown":
      return "in-doubt";
    case "queued":
      return "queued";
    case "failed":
      return outcome.final ? "refused" : null;
    default:
      return null;
  }
}

/** What was counted since the last write, of one action and one cause. */
export interface PreventedCount {
  readonly action: string;
  readonly cause: PreventedCause;
  readonly hours: ReadonlyMap<number, HourCount>;
  /** Of the latest. */
  readonly key: string;
}

/** Within one hour; times in epoch ms. */
export interface HourCount {
  prevented: number;
  observed: number;
  first: number;
  last: number;
}

/** A sum over the asked time. */
export interface PreventedEntry {
  /** "" where it has none. */
  readonly tenant: string;
  readonly action: string;
  readonly cause: PreventedCause;
  /** Calls that were not run. */
  readonly prevented: number;
  /** Calls that ran all the same, because their tool is guarded with mode: "observe". */
  readonly observed: number;
  /** Epoch ms. */
  readonly first: number;
  readonly last: number;
  /** The intent of the latest. */
  readonly key: string;
}

export const PREVENTED_ACTION = "nevertwice.prevented";
export const PREVENTED_KEEP_MS = 90 * 86_400_000;
export const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
// Names may be made at call time: a note has so many actions and causes, and one row for each cause of all others.
const MOST_ROWS = 200;
export const OTHER_ACTIONS = "(other actions)";

/** [hour of the day, prevented, observed, first, last] */
type StoredHour = readonly [number, number, number, number, number];

interface StoredRow {
  readonly action: string;
  readonly cause: PreventedCause;
  readonly key: string;
  readonly hours: readonly StoredHour[];
}

export function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

/** Without a secret: it names a tenant, which the record shows, and a day. So programs with other secrets share it. */
export function preventedKey(tenant: string, day: number): string {
  const identity = { tenant, action: PREVENTED_ACTION, version: 1, scope: null, secret: undefined };
  return deriveKey({ ...identity, parts: [new Date(day * DAY_MS).toISOString().slice(0, 10)] });
}

export interface PreventedWrite {
  readonly tenant: string;
  readonly day: number;
  /** By which a write whose reply was lost is recognised. */
  readonly id: string;
  readonly counts: readonly PreventedCount[];
}

/** The note of a day with more counts in it; null: they are in it already. */
export function addPrevented(
  before: LedgerRecord | null,
  { tenant, day, id, counts }: PreventedWrite,
  at: Instant,
): LedgerRecord | null {
  if (noteIn(before, at).id === id) return null;
  const rows = new Map(rowsIn(before, at).map((row) => [nameOf(row), row]));
  for (const count of counts) {
    const hours = [...count.hours].filter(([hour]) => dayOf(hour * HOUR_MS) === day);
    if (hours.length === 0) continue;
    const own = rows.has(nameOf(count)) || rows.size < MOST_ROWS ? count : { ...count, action: OTHER_ACTIONS };
    const known = rows.get(nameOf(own));
    const { action, cause, key } = own;
    rows.set(nameOf(own), { action, cause, key, hours: addHours(known?.hours ?? [], hours) });
  }
  const name = { key: preventedKey(tenant, day), tenant, action: PREVENTED_ACTION, keepMs: PREVENTED_KEEP_MS };
  return writeNote(before, name, JSON.stringify({ id, rows: [...rows.values()] }), at);
}

function nameOf({ action, cause }: Pick<StoredRow, "action" | "cause">): string {
  return `${cause} ${action}`;
}

function addHours(known: readonly StoredHour[], more: readonly (readonly [number, HourCount])[]): StoredHour[] {
  const hours = new Map(known.map((one) => [one[0], one]));
  for (const [at, { prevented, observed, first, last }] of more) {
    const hour = at % 24;
    const [, p = 0, o = 0, from = first, to = last] = hours.get(hour) ?? [];
    hours.set(hour, [hour, p + prevented, o + observed, Math.min(from, first), Math.max(to, last)]);
  }
  return [...hours.values()].sort(([a], [b]) => a - b);
}

/** What the notes say of the time from `since` on, by whole hours; the most frequent first. */
export function sumPrevented(notes: readonly LedgerRecord[], since: number, at: Instant): PreventedEntry[] {
  const from = Math.floor(since / HOUR_MS) * HOUR_MS;
  const sums = new Map<string, PreventedEntry>();
  for (const note of notes) {
    for (const { action, cause, key, hours } of rowsIn(note, at)) {
      for (const [, prevented, observed, first, last] of hours) {
        if (last < from) continue;
        const name = JSON.stringify([note.tenant, cause, action]);
        const known = sums.get(name);
        const latest = known === undefined || last >= known.last;
        sums.set(name, {
          tenant: note.tenant,
          action,
          cause,
          prevented: prevented + (known?.prevented ?? 0),
          observed: observed + (known?.observed ?? 0),
          first: Math.min(first, known?.first ?? first),
          last: Math.max(last, known?.last ?? last),
          key: latest ? key : known.key,
        });
      }
    }
  }
  const most = ({ prevented, observed }: PreventedEntry) => prevented + observed;
  return [...sums.values()].sort((a, b) => most(b) - most(a) || b.last - a.last);
}

function rowsIn(note: LedgerRecord | null, at: Instant): readonly StoredRow[] {
  const { rows } = noteIn(note, at);
  return Array.isArray(rows) ? rows.filter(isRow) : [];
}

function noteIn(note: LedgerRecord | null, at: Instant): { readonly id?: unknown; readonly rows?: unknown } {
  try {
    return JSON.parse(readNote(note, at) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

function isRow(row: unknown): row is StoredRow {
  const { action, cause, key, hours } = (row ?? {}) as Partial<StoredRow>;
  if (typeof action !== "string" || typeof key !== "string" || !CAUSES.includes(cause as PreventedCause)) return false;
  return (
    Array.isArray(hours) && hours.every((one) => Array.isArray(one) && one.length === 5 && one.every(Number.isFinite))
  );
}
