/**
 * A row as a lease hands it over: nothing in it that the lease itself has set, and all numbers in one text. A third of
 * the columns of any other row, for what is read once in the life of every queued record.
 */

import { decodeIntact } from "../../../core/damaged-record.ts";
import { codeAt } from "../../../core/key/code-at.ts";
import type { LedgerRecord } from "../../../core/record.ts";
import type { LeaseQuery, Stored } from "../../../core/store.ts";
import { decodePayload } from "../../shared/payload-text.ts";
import { keyFromHex } from "./key.ts";
import { decodeDoc, decodeMark, keepOf, type Row, readable, type SqlText } from "./row.ts";
import { soundCount } from "./sound.ts";

/** Those that are never null first. */
const NUMBERS =
  "r.attention_at, r.rev, r.created_at, r.keep_ms, r.attempt, r.fence, r.tries, r.first_sent_at, r.last_sent_at";

/** Of the rows `r`, as they are now. */
export const LEASED_LIST = `encode(r.key, 'hex') AS c0, ARRAY[${NUMBERS}]::text AS c1, r.tenant AS c2, r.action AS c3, r.scope AS c4, r.doc AS c5, r.input AS c6, r.draft AS c7, r.result AS c8, r.sent_mark AS c9, r.state AS c10, r.agent AS c11, r.provider_id AS c12`;

export interface Leased {
  readonly stored: Stored;
  /** As SQL takes the key. */
  readonly hex: string;
  /** When it became due. */
  readonly since: number;
}

/** What a lease at the moment `now` made of the rows, the longest due first. What cannot be read is reported. */
export function decodeLeased(rows: readonly Row[], query: LeaseQuery, now: number, where: string): Leased[] {
  const read = (row: Row) => readable(row, where, () => decode(row, query, now));
  return decodeIntact(rows, read, (damaged) => query.damaged?.(damaged)).sort((a, b) => a.since - b.since);
}

function decode(row: Row, { to, holder, leaseMs }: LeaseQuery, now: number): Leased {
  const hex = row.c0 as string;
  const numbers = integersOf(row.c1 as string);
  const [since, version, createdAt, keepMs, attempt, fence, tries] = numbers as number[] as SevenNumbers;
  // The lease leaves what cannot be as it was.
  if (row.c10 !== to) throw new TypeError(`its state is ${JSON.stringify(row.c10)}`);
  for (const count of [version, attempt, fence, tries]) soundCount(count, "counter");
  const { fingerprint, rest } = decodeDoc(row.c5 as string);
  const [firstSentAt, lastSentAt] = numbers.slice(7) as [number | null, number | null];
  const record: LedgerRecord = {
    key: keyFromHex(hex),
    tenant: row.c2 as string,
    action: row.c3 as string,
    version: rest.version ?? 1,
    scope: row.c4 as SqlText,
    agent: row.c11 as SqlText,
    state: to,
    attempt,
    fence,
    tries,
    holder,
    lease: { until: now + leaseMs, epoch: "" },
    queued: true,
    terms: rest.terms ?? null,
    createdAt,
    updatedAt: now,
    dueAt: null,
    firstSentAt,
    lastSentAt,
    firstSentMark: decodeMark(row.c9 as SqlText, firstSentAt),
    doubted: rest.doubted ?? false,
    doubtSince: null,
    doubtMark: null,
    why: null,
    settledAt: null,
    expiresAt: null,
    keepMs: rest.keepMs === undefined ? keepOf(keepMs) : rest.keepMs,
    final: false,
    fingerprint,
    input: decodePayload(row.c6 as SqlText),
    draft: decodePayload(row.c7 as SqlText),
    result: decodePayload(row.c8 as SqlText),
    providerId: row.c12 as SqlText,
    error: null,
    history: rest.history ?? [],
  };
  return { stored: { record, version }, hex, since };
}

type SevenNumbers = [number, number, number, number, number, number, number];

const [ZERO, MINUS, NULL] = [48, 45, 78];
/** Of the text of an array, `{1,-1,NULL}`. By hand: this is in every job, and Number() takes its time over long ones. */
export function integersOf(text: string): (number | null)[] {
  const values: (number | null)[] = [];
  const end = text.length - 1;
  for (let at = 1; at < end; at += 1) {
    const first = codeAt(text, at);
    if (first === NULL) {
      values.push(null);
      at += "NULL".length;
      continue;
    }
    if (first === MINUS) at += 1;
    let value = 0;
    for (; at < end; at += 1) {
      const digit = codeAt(text, at) - ZERO;
      if (digit < 0) break;
      value = value * 10 + digit;
    }
    values.push(first === MINUS ? -value : value);
  }
  return values;
}
