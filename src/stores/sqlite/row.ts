/** A record as a row and back, with a checksum: a flipped bit is noticed, never read as something else. */
import { damagedRecord } from "../../core/damaged-record.ts";
import { attentionAt, type LedgerRecord, type SteadyMark } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
import { checksum } from "../shared/checksum.ts";
import { completed, type Doc, fingerprintOf, layout, loneDigest, packed, unpacked } from "../shared/codec.ts";
import { decodePayload, encodePayload } from "../shared/payload-text.ts";

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
 * What has no column of its own, without default values: a row half as long means half as many pages to write. What stands
 * in every row has one letter; f is [holder, guarded, fields, free], of which a lone field needs the first two.
 */
const DOC = layout({
  keepMs: "k",
  firstSentAt: "s",
  firstSentMark: "m",
  settledAt: "d",
  updatedAt: "u",
  version: "version",
  attempt: "attempt",
  fence: "fence",
  tries: "tries",
  queued: "queued",
  terms: "terms",
  dueAt: "dueAt",
  lastSentAt: "lastSentAt",
  doubted: "doubted",
  doubtSince: "doubtSince",
  doubtMark: "doubtMark",
  why: "why",
  final: "final",
  error: "error",
  agent: "agent",
  providerId: "providerId",
  history: "history",
});

function docOf(record: LedgerRecord): string {
  const { holder, fingerprint, firstSentAt, firstSentMark, lease } = record;
  const { guarded, fields, free } = fingerprint;
  const lone = loneDigest(fingerprint) !== undefined;
  const f = lone ? [holder, guarded] : free === null ? [holder, guarded, fields] : [holder, guarded, fields, free];
  const doc: Doc = { f, ...packed(record, DOC) };
  if (firstSentAt !== null && firstSentAt === record.createdAt) doc.s = true;
  // A mark on the clock of the lease beside it needs no name of the clock.
  if (firstSentMark !== null && lease?.epoch === firstSentMark.epoch) doc.m = firstSentMark.at;
  return JSON.stringify(doc);
}

function readDoc(text: string, createdAt: number, epoch: string) {
  const doc = JSON.parse(text) as Doc;
  const [holder, guarded, fields, free] = doc.f as [string | null, string, Record<string, string>?, string?];
  const known: Partial<LedgerRecord> = unpacked(doc, DOC);
  return {
    ...known,
    ...(doc.s === true && { firstSentAt: createdAt }),
    ...(typeof doc.m === "number" && { firstSentMark: { at: doc.m, epoch } satisfies SteadyMark }),
    holder,
    fingerprint: fingerprintOf(guarded, free, fields),
  };
}

const REV = COLUMNS.indexOf("rev");

export function versionOf(row: RowValues): number {
  return row[REV] as number;
}

export function encodeRow(record: LedgerRecord, rev: number): RowValues {
  const row: RowValues = [
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
    0,
  ];
  row[CHECKED] = checksum(textOf(row));
  return row;
}

export function decodeRow(row: Row, where: string): Stored {
  try {
    if (!isIntact(row)) throw new TypeError("its row does not match its checksum");
    return decode(row);
  } catch {
    throw damagedRecord({ key: String(row.key), where, what: "its row does not match its checksum" });
  }
}

function decode(row: Row): Stored {
  const createdAt = row.created_at as number;
  const epoch = row.lease_epoch as string;
  const record = completed({
    ...readDoc(row.doc as string, createdAt, epoch),
    key: row.key as string,
    tenant: row.tenant as string,
    action: row.action as string,
    scope: row.scope as string | null,
    state: row.state as LedgerRecord["state"],
    lease: row.lease_until === null ? null : { until: row.lease_until as number, epoch },
    createdAt,
    expiresAt: row.expires_at as number | null,
    input: decodePayload(row.input as string | null),
    draft: decodePayload(row.draft as string | null),
    result: decodePayload(row.result as string | null),
  });
  return { record, version: row.rev as number };
}

// Every column but the checksum itself, which is the last.
const CHECKED = COLUMNS.length - 1;
/** The unit separator keeps ("ab", "c") and ("a", "bc") apart. */
const SEPARATOR = "\u001f";

/** Which columns are null, as bits, then the others. Concatenated, because join() is three times as slow. */
function textOf(row: RowValues): string {
  let nulls = 0;
  let text = "";
  for (let i = 0; i < CHECKED; i += 1) {
    const value = row[i] as RowValues[number];
    if (value === null) nulls |= 1 << i;
    else text += `${value}${SEPARATOR}`;
  }
  return text + nulls;
}

/** The row is as it was written. */
export function isIntact(row: Row): boolean {
  const values = COLUMNS.map((column) => row[column]);
  // One bit makes a text a blob of the same bytes, and an empty blob joins into the checksum like an empty text.
  if (values.some((value) => typeof value === "object" && value !== null)) return false;
  return checksum(textOf(values)) === row.sum;
}
