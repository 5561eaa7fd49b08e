/**
 * Queries for stores that keep no index and look at every row: the memory store, the JSONL file.
 * Pure functions over rows, so that such a store is a row holder and nothing else.
 */
import { type DamagedRecord, decodeIntact } from "../../core/damaged-record.ts";
import { configError } from "../../core/errors.ts";
import { attentionAt, type Instant, type LedgerRecord, leaseAlive } from "../../core/record.ts";
import type { LeaseQuery, LedgerStats, ListQuery, Page, StatsQuery, Stored, SweepQuery } from "../../core/store.ts";
import { transition } from "../../core/transition.ts";
import { Tally } from "./stats.ts";

/** What a query looks at: a store may keep this much of each row at hand and fetch the rest of those it hands out. */
export type Scanned = Pick<
  LedgerRecord,
  | "key"
  | "tenant"
  | "action"
  | "scope"
  | "agent"
  | "state"
  | "queued"
  | "terms"
  | "lease"
  | "createdAt"
  | "updatedAt"
  | "dueAt"
  | "doubtSince"
  | "settledAt"
  | "expiresAt"
  | "providerId"
>;

export interface ScannedRow {
  readonly record: Scanned;
}

/** Where a page ended. Creation time and key never change, so rows added meanwhile shift nothing. */
export interface Position {
  readonly createdAt: number;
  readonly key: string;
}

export function checkLimit(limit: number, where: string): void {
  if (Number.isSafeInteger(limit) && limit > 0) return;
  throw configError(`${where}: limit is ${String(limit)}; it takes a whole number above zero.`);
}

export function encodeCursor({ createdAt, key }: Position): string {
  return Buffer.from(JSON.stringify([createdAt, key])).toString("base64url");
}

export function decodeCursor(cursor: string): Position {
  const [createdAt, key] = cursorParts(cursor);
  if (typeof createdAt === "number" && typeof key === "string") return { createdAt, key };
  throw configError(`list: the cursor is not one this ledger gave out. Pass back a page's cursor unchanged, or none.`);
}

function cursorParts(cursor: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parts) && parts.length === 2 ? parts : [];
  } catch {
    return [];
  }
}

/** The first so many rows of an order, gathered one by one: the rest is neither kept nor sorted. */
class FirstOf<R> {
  readonly #limit: number;
  readonly #compare: (a: R, b: R) => number;
  #rows: R[] = [];
  #last: R | null = null;

  constructor(limit: number, compare: (a: R, b: R) => number) {
    this.#limit = limit;
    this.#compare = compare;
  }

  add(row: R): void {
    if (this.#last !== null && this.#compare(row, this.#last) > 0) return;
    this.#rows.push(row);
    if (this.#rows.length >= 2 * this.#limit + 64) this.#cut();
  }

  rows(): R[] {
    this.#cut();
    return this.#rows;
  }

  #cut(): void {
    this.#rows.sort(this.#compare);
    if (this.#rows.length <= this.#limit) return;
    this.#rows.length = this.#limit;
    this.#last = this.#rows[this.#limit - 1] as R;
  }
}

/** Queued work that may be handed out now, the longest due first. */
export function dueRows<R extends ScannedRow>(rows: Iterable<R>, query: LeaseQuery, at: Instant): R[] {
  checkLimit(query.limit, "lease");
  const due = new FirstOf<R>(
    query.limit,
    (a, b) => dueSince(a.record) - dueSince(b.record) || byCreation(a.record, b.record),
  );
  for (const row of rows) if (wanted(row.record, query) && ready(row.record, at)) due.add(row);
  return due.rows();
}

function wanted(record: Scanned, query: LeaseQuery): boolean {
  if (!record.queued) return false;
  if (query.tenant !== undefined && record.tenant !== query.tenant) return false;
  return query.actions === undefined || query.actions.includes(record.action);
}

function ready(record: Scanned, at: Instant): boolean {
  if (record.state === "pending") return (record.dueAt ?? 0) <= at.now;
  return record.state === "claimed" && !leaseAlive(record, at);
}

/** A claim clears `dueAt`; what fell back to us through a lapsed lease queues by its last sign of life. */
function dueSince(record: Scanned): number {
  return attentionAt(record) ?? record.updatedAt;
}

/** The record as a worker's lease leaves it; null: it cannot be claimed. */
export function claimed(record: LedgerRecord, query: LeaseQuery, at: Instant): LedgerRecord | null {
  const { to, holder, leaseMs } = query;
  const change = transition(record, { type: "claim", to, holder, leaseMs, newRound: false }, at);
  return change.ok ? change.record : null;
}

/** What can be read of a page's rows; what cannot is reported with it. */
export function intactPage<R>(rows: Iterable<R>, decode: (row: R) => Stored, cursor: string | null): Page {
  const damaged: DamagedRecord[] = [];
  const items = decodeIntact(rows, decode, (found) => damaged.push(found));
  return damaged.length === 0 ? { items, cursor } : { items, cursor, damaged };
}

/** A page, gathered row by row: a store with many rows adds them in slices, and lets its callers go on in between. */
export class PageScan<R extends ScannedRow> {
  readonly #query: ListQuery;
  readonly #at: Instant;
  readonly #after: Position | null;
  readonly #sign: 1 | -1;
  readonly #found: FirstOf<R>;

  constructor(query: ListQuery, at: Instant) {
    checkLimit(query.limit, "list");
    const sign = query.order === "oldest" ? 1 : -1;
    this.#query = query;
    this.#at = at;
    this.#after = query.cursor === undefined ? null : decodeCursor(query.cursor);
    this.#sign = sign;
    // One more than asked for tells that there is a next page.
    this.#found = new FirstOf(query.limit + 1, (a, b) => sign * byCreation(a.record, b.record));
  }

  add(row: R): void {
    const { record } = row;
    if (!isListed(record, this.#query, this.#at)) return;
    if (this.#after !== null && this.#sign * byCreation(record, this.#after) <= 0) return;
    this.#found.add(row);
  }

  page(): { items: R[]; cursor: string | null } {
    const found = this.#found.rows();
    const items = found.slice(0, this.#query.limit);
    const last = items.at(-1);
    return { items, cursor: last === undefined || found.length === items.length ? null : encodeCursor(last.record) };
  }
}

/** Whether a list with these filters shows the record. */
export function isListed(record: Scanned, query: ListQuery, at: Instant): boolean {
  if (query.tenant !== undefined && record.tenant !== query.tenant) return false;
  if (query.action !== undefined && record.action !== query.action) return false;
  if (query.scope !== undefined && record.scope !== query.scope) return false;
  if (!isWanted(record, query)) return false;
  if (query.states !== undefined && !query.states.includes(record.state)) return false;
  if (query.keyPrefix !== undefined && !record.key.startsWith(query.keyPrefix)) return false;
  return query.lapsed !== true || lapsed(record, at);
}

/** By who acted and what the provider calls it: for stores without an index of these, which is all of them. */
export function isWanted(
  { agent, providerId }: Pick<LedgerRecord, "agent" | "providerId">,
  query: Pick<ListQuery, "agent" | "providerIds">,
): boolean {
  if (query.agent !== undefined && agent !== query.agent) return false;
  return query.providerIds === undefined || (providerId !== null && query.providerIds.includes(providerId));
}

export function byCreation(a: Position, b: Position): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  if (a.key === b.key) return 0;
  return a.key < b.key ? -1 : 1;
}

function lapsed(record: Scanned, at: Instant): boolean {
  return (record.state === "claimed" || record.state === "sent") && !leaseAlive(record, at);
}

/** Statistics, gathered row by row. */
export class StatsScan {
  readonly #tenant: string | undefined;
  readonly #at: Instant;
  readonly #tally = new Tally();
  readonly #oldest: { pending: number | null; unknown: number | null } = { pending: null, unknown: null };
  #lapsed = 0;

  constructor({ tenant }: StatsQuery, at: Instant) {
    this.#tenant = tenant;
    this.#at = at;
  }

  add({ record }: ScannedRow): void {
    if (this.#tenant !== undefined && record.tenant !== this.#tenant) return;
    const { action, state } = record;
    this.#tally.add(action, state);
    if (lapsed(record, this.#at)) this.#lapsed += 1;
    if (state !== "pending" && state !== "unknown") return;
    const since = attentionAt(record);
    const oldest = this.#oldest[state];
    if (since !== null && (oldest === null || since < oldest)) this.#oldest[state] = since;
  }

  stats(): LedgerStats {
    const { pending, unknown } = this.#oldest;
    return this.#tally.stats({ lapsed: this.#lapsed, oldestPendingAt: pending, oldestUnknownAt: unknown });
  }
}

/** Settled and past `keep`. The state is checked too: a doubt must never be swept, whatever its row says. */
export function sweepableRows<R extends ScannedRow>(rows: readonly R[], query: SweepQuery, now: number): R[] {
  checkLimit(query.limit, "sweep");
  return rows.filter((row) => isSweepable(row, query, now)).slice(0, query.limit);
}

export function isSweepable({ record }: ScannedRow, { tenant }: SweepQuery, now: number): boolean {
  return (
    (tenant === undefined || record.tenant === tenant) &&
    (record.state === "confirmed" || record.state === "failed") &&
    record.expiresAt !== null &&
    record.expiresAt <= now
  );
}
