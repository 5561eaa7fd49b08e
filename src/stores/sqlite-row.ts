/** A record as a row and back, with a checksum: a flipped bit is noticed, never read as something else. */
import { crc32 } from "node:zlib";
import { NevertwiceError } from "../core/errors.ts";
import { attentionAt, type LedgerRecord, type Payload } from "../core/record.ts";
import type { Stored } from "../core/store.ts";

export const COLUMNS = [
  "key",
  "rev",
  "tenant",
  "action",
  "scope",
  "state",
  "lease_until",
  "lease_epoch",
  "attention_at",
  "expires_at",
  "created_at",
  "doc",
  "input",
  "draft",
  "result",
  "sum",
] as const;

export type Row = Readonly<Record<(typeof COLUMNS)[number], string | number | null>>;

/** Values in the order of COLUMNS. */
export type RowValues = (string | number | null)[];

/**
 * What has no column of its own, with what is as usual left out (null, false, empty, the first try): most of it is, most
 * of the time, and a row half as long means half as many pages to write. Spelled out, because a rest spread of thirty fields costs more than
 * the rest of a claim.
 */
function docOf(r: LedgerRecord): string {
  let text = `{"updatedAt":${r.updatedAt}`;
  if (r.version !== 1) text += `,"version":${r.version}`;
  if (r.attempt !== 1) text += `,"attempt":${r.attempt}`;
  if (r.fence !== 1) text += `,"fence":${r.fence}`;
  if (r.tries !== 1) text += `,"tries":${r.tries}`;
  if (r.holder !== null) text += `,"holder":${JSON.stringify(r.holder)}`;
  if (r.queued) text += `,"queued":true`;
  if (r.terms !== null) text += `,"terms":${JSON.stringify(r.terms)}`;
  if (r.dueAt !== null) text += `,"dueAt":${r.dueAt}`;
  if (r.firstSentAt !== null) text += `,"firstSentAt":${r.firstSentAt}`;
  if (r.lastSentAt !== r.firstSentAt) text += `,"lastSentAt":${r.lastSentAt}`;
  if (r.firstSentMark !== null) text += `,"firstSentMark":${JSON.stringify(r.firstSentMark)}`;
  if (r.doubted) text += `,"doubted":true`;
  if (r.doubtSince !== null) text += `,"doubtSince":${r.doubtSince}`;
  if (r.doubtMark !== null) text += `,"doubtMark":${JSON.stringify(r.doubtMark)}`;
  if (r.why !== null) text += `,"why":${JSON.stringify(r.why)}`;
  if (r.settledAt !== null) text += `,"settledAt":${r.settledAt}`;
  if (r.keepMs !== null) text += `,"keepMs":${r.keepMs}`;
  if (r.final) text += `,"final":true`;
  if (r.error !== null) text += `,"error":${JSON.stringify(r.error)}`;
  if (r.history.length > 0) text += `,"history":${JSON.stringify(r.history)}`;
  return `${text},"fingerprint":${JSON.stringify(r.fingerprint)}}`;
}

type Doc = Omit<
  LedgerRecord,
  "key" | "tenant" | "action" | "scope" | "state" | "lease" | "expiresAt" | "createdAt" | "input" | "draft" | "result"
>;

const LEFT_OUT: Omit<Doc, "updatedAt" | "fingerprint" | "lastSentAt"> = {
  version: 1,
  attempt: 1,
  fence: 1,
  tries: 1,
  holder: null,
  queued: false,
  terms: null,
  dueAt: null,
  firstSentAt: null,
  firstSentMark: null,
  doubted: false,
  doubtSince: null,
  doubtMark: null,
  why: null,
  settledAt: null,
  keepMs: null,
  final: false,
  error: null,
  history: [],
};

export function encodeRow(record: LedgerRecord, rev: number): RowValues {
  const values: RowValues = [
    record.key,
    rev,
    record.tenant,
    record.action,
    record.scope,
    record.state,
    record.lease === null ? null : record.lease.until,
    record.lease === null ? null : record.lease.epoch,
    attentionAt(record),
    record.expiresAt,
    record.createdAt,
    docOf(record),
    encodePayload(record.input),
    encodePayload(record.draft),
    encodePayload(record.result),
  ];
  values.push(checksum(values));
  return values;
}

export function decodeRow(row: Row, where: string): Stored {
  if (!intact(row)) throw damaged(row.key, where);
  let doc: Doc;
  try {
    const kept = JSON.parse(row.doc as string);
    doc = { ...LEFT_OUT, lastSentAt: kept.firstSentAt ?? null, ...kept };
  } catch {
    throw damaged(row.key, where);
  }
  const record: LedgerRecord = {
    ...doc,
    key: row.key as string,
    tenant: row.tenant as string,
    action: row.action as string,
    scope: row.scope as string | null,
    state: row.state as LedgerRecord["state"],
    lease: row.lease_until === null ? null : { until: row.lease_until as number, epoch: row.lease_epoch as string },
    expiresAt: row.expires_at as number | null,
    createdAt: row.created_at as number,
    input: decodePayload(row.input as string | null),
    draft: decodePayload(row.draft as string | null),
    result: decodePayload(row.result as string | null),
  };
  return { record, version: row.rev as number };
}

// Every column but the checksum itself, which is the last.
const CHECKED = COLUMNS.length - 1;

function checksum(values: RowValues): number {
  // The unit separator keeps ("ab", "c") and ("a", "bc") apart. Concatenated, because join() is three times as slow.
  let text = "";
  for (let i = 0; i < CHECKED; i += 1) text += `${values[i] ?? ""}\u001f`;
  return crc32(text);
}

function intact(row: Row): boolean {
  const values: RowValues = [];
  for (const column of COLUMNS) {
    const value = row[column];
    // One bit makes a text a blob of the same bytes, and an empty blob joins into the checksum like an empty text.
    if (typeof value === "object" && value !== null) return false;
    values.push(value);
  }
  return checksum(values) === row.sum;
}

// JSON text starts with none of these, so a plain payload reads as plain JSON in the sqlite3 shell.
const SEALED = "ntseal";
const OMITTED = "!";

function encodePayload(payload: Payload | null): string | null {
  if (payload === null) return null;
  if ("json" in payload) return payload.json;
  return "sealed" in payload ? payload.sealed : OMITTED + payload.omitted;
}

function decodePayload(text: string | null): Payload | null {
  if (text === null) return null;
  if (text.startsWith(OMITTED)) return { omitted: text.slice(OMITTED.length) };
  return text.startsWith(SEALED) ? { sealed: text } : { json: text };
}

function damaged(key: unknown, where: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the ledger ${where} is damaged: the row of ${String(key)} does not match its checksum. Nothing was run. Restore the file from a backup, and see what else is wrong with: nevertwice doctor`,
    typeof key === "string" ? { key } : {},
  );
}
