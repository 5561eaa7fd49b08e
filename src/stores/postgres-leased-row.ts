/**
 * A row as a lease hands it over: nothing in it that the lease itself has set, and all numbers in one text. A third of
 * the columns of any other row, for what is read once in the life of every queued record.
 */
import type { LedgerRecord } from "../core/record.ts";
import type { LeaseQuery, Stored } from "../core/store.ts";
import { decodePayload } from "./payload-text.ts";
import { keyFromHex } from "./postgres-key.ts";
import { decodeDoc, decodeMark, keepOf, type Row, readable, type SqlText } from "./postgres-row.ts";

const NUMBERS = "p.since, r.rev, r.created_at, r.keep_ms, r.attempt, r.fence, r.tries, r.first_sent_at, r.last_sent_at";

/** Of the rows `r`, picked as `p`. */
export const LEASED_LIST = `encode(r.key, 'hex') AS c0, ARRAY[${NUMBERS}]::text AS c1, r.tenant AS c2, r.action AS c3, r.scope AS c4, r.doc AS c5, r.input AS c6, r.draft AS c7, r.result AS c8, r.sent_mark AS c9`;

export interface Leased {
  readonly stored: Stored;
  /** As SQL takes the key. */
  readonly hex: string;
  /** When it became due. */
  readonly since: number;
}

/** What a lease at the moment `now` made of the rows, the longest due first. */
export function decodeLeased(rows: readonly Row[], query: LeaseQuery, now: number, where: string): Leased[] {
  return readable(where, () => rows.map((row) => decode(row, query, now))).sort((a, b) => a.since - b.since);
}

function decode(row: Row, { to, holder, leaseMs }: LeaseQuery, now: number): Leased {
  const hex = row.c0 as string;
  // {1,2,NULL}
  const numbers = (row.c1 as string).slice(1, -1).split(",");
  const [guarded, free, fields, doc] = decodeDoc(row.c5 as string);
  const firstSentAt = numberOrNull(numbers[7]);
  const record: LedgerRecord = {
    key: keyFromHex(hex),
    tenant: row.c2 as string,
    action: row.c3 as string,
    version: doc.version ?? 1,
    scope: row.c4 as SqlText,
    state: to,
    attempt: Number(numbers[4]),
    fence: Number(numbers[5]),
    tries: Number(numbers[6]),
    holder,
    lease: { until: now + leaseMs, epoch: "" },
    queued: true,
    terms: doc.terms ?? null,
    createdAt: Number(numbers[2]),
    updatedAt: now,
    dueAt: null,
    firstSentAt,
    lastSentAt: numberOrNull(numbers[8]),
    firstSentMark: decodeMark(row.c9 as SqlText, firstSentAt),
    doubted: doc.doubted ?? false,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    keepMs: doc.keepMs === undefined ? keepOf(Number(numbers[3])) : doc.keepMs,
    final: false,
    fingerprint: { guarded, free, fields },
    input: decodePayload(row.c6 as SqlText),
    draft: decodePayload(row.c7 as SqlText),
    result: decodePayload(row.c8 as SqlText),
    error: null,
    history: doc.history ?? [],
  };
  return { stored: { record, version: Number(numbers[1]) }, hex, since: Number(numbers[0]) };
}

function numberOrNull(text: string | undefined): number | null {
  return text === "NULL" ? null : Number(text);
}
