/**
 * Queries for stores that keep no index and look at every row: the memory store, the JSONL file.
 * Pure functions over rows, so that such a store is a row holder and nothing else.
 */
import { configError } from "./errors.ts";
import { attentionAt, type Instant, type LedgerRecord, leaseAlive, type State } from "./record.ts";
import type { ActionStats, LeaseQuery, LedgerStats, ListQuery, StatsQuery, SweepQuery } from "./store.ts";

/** What a query looks at: a store may keep this much of each row at hand and fetch the rest of those it hands out. */
export type Scanned = Pick<
  LedgerRecord,
  | "key"
  | "tenant"
  | "action"
  | "scope"
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

/** Queued work that may be handed out now, the longest due first. */
export function dueRows<R extends ScannedRow>(rows: readonly R[], query: LeaseQuery, at: Instant): R[] {
  checkLimit(query.limit, "lease");
  return rows
    .filter(({ record }) => wanted(record, query) && ready(record, at))
    .sort((a, b) => dueSince(a.record) - dueSince(b.record) || byCreation(a.record, b.record))
    .slice(0, query.limit);
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

export function pageOf<R extends ScannedRow>(
  rows: readonly R[],
  query: ListQuery,
  at: Instant,
): { items: R[]; cursor: string | null } {
  checkLimit(query.limit, "list");
  const after = query.cursor === undefined ? null : decodeCursor(query.cursor);
  const sign = query.order === "oldest" ? 1 : -1;
  const found = rows
    .filter(({ record }) => listed(record, query, at) && (after === null || sign * byCreation(record, after) > 0))
    .sort((a, b) => sign * byCreation(a.record, b.record));
  const items = found.slice(0, query.limit);
  const last = items.at(-1);
  return { items, cursor: last === undefined || found.length === items.length ? null : encodeCursor(last.record) };
}

function listed(record: Scanned, query: ListQuery, at: Instant): boolean {
  if (query.tenant !== undefined && record.tenant !== query.tenant) return false;
  if (query.action !== undefined && record.action !== query.action) return false;
  if (query.scope !== undefined && record.scope !== query.scope) return false;
  if (query.states !== undefined && !query.states.includes(record.state)) return false;
  if (query.keyPrefix !== undefined && !record.key.startsWith(query.keyPrefix)) return false;
  return query.lapsed !== true || lapsed(record, at);
}

function byCreation(a: Position, b: Position): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  if (a.key === b.key) return 0;
  return a.key < b.key ? -1 : 1;
}

function lapsed(record: Scanned, at: Instant): boolean {
  return (record.state === "claimed" || record.state === "sent") && !leaseAlive(record, at);
}

export function statsOf(all: readonly ScannedRow[], at: Instant, { tenant }: StatsQuery = {}): LedgerStats {
  const rows = tenant === undefined ? all : all.filter(({ record }) => record.tenant === tenant);
  const states = noStates();
  const actions = new Map<string, Record<State, number>>();
  for (const { record } of rows) {
    states[record.state] += 1;
    const counts = actions.get(record.action) ?? noStates();
    counts[record.state] += 1;
    actions.set(record.action, counts);
  }
  return {
    total: rows.length,
    states,
    actions: [...actions].map(actionStats).sort((a, b) => (a.action < b.action ? -1 : 1)),
    lapsed: rows.filter(({ record }) => lapsed(record, at)).length,
    oldestPendingAt: oldestAttention(rows, "pending"),
    oldestUnknownAt: oldestAttention(rows, "unknown"),
  };
}

function noStates(): Record<State, number> {
  return { pending: 0, claimed: 0, sent: 0, confirmed: 0, failed: 0, unknown: 0 };
}

function actionStats([action, states]: [string, Record<State, number>]): ActionStats {
  return { action, states, total: Object.values(states).reduce((sum, count) => sum + count, 0) };
}

function oldestAttention(rows: readonly ScannedRow[], state: State): number | null {
  let oldest: number | null = null;
  for (const { record } of rows) {
    const since = record.state === state ? attentionAt(record) : null;
    if (since !== null && (oldest === null || since < oldest)) oldest = since;
  }
  return oldest;
}

/** Settled and past `keep`. The state is checked too: a doubt must never be swept, whatever its row says. */
export function sweepableRows<R extends ScannedRow>(rows: readonly R[], query: SweepQuery, now: number): R[] {
  checkLimit(query.limit, "sweep");
  const over = ({ record }: R) =>
    (query.tenant === undefined || record.tenant === query.tenant) &&
    (record.state === "confirmed" || record.state === "failed") &&
    record.expiresAt !== null &&
    record.expiresAt <= now;
  return rows.filter(over).slice(0, query.limit);
}
