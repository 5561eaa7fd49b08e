/** A record as a row and back, with a checksum: a flipped bit is noticed, never read as something else. */
import { damagedRecord } from "../../core/damaged-record.ts";
import type { NevertwiceError } from "../../core/errors.ts";
import { isLone, loneFingerprint } from "../../core/key/fingerprint.ts";
import { attentionAt, type Fingerprint, type Lease, type LedgerRecord, type SteadyMark } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
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
 * What has no column of its own, with what is as usual left out (null, false, empty, the first try, the time of creation):
 * most of it is, most of the time, and a row half as long means half as many pages to write. What stands in every row has
 * one letter: s firstSentAt, m firstSentMark, d settledAt, u updatedAt, k keepMs, f [holder, guarded, fields, free], of
 * which a lone field needs the first two.
 * Spelled out, because a rest spread of thirty fields costs more than the rest of a claim.
 */
function docOf(r: LedgerRecord): string {
  let text = `{"f":${JSON.stringify(printsOf(r))}`;
  if (r.keepMs !== null) text += `,"k":${r.keepMs}`;
  if (r.firstSentAt !== null) text += `,"s":${r.firstSentAt === r.createdAt ? "true" : r.firstSentAt}`;
  if (r.firstSentMark !== null) text += `,"m":${markText(r.firstSentMark, r.lease)}`;
  if (r.settledAt !== null) text += `,"d":${r.settledAt}`;
  if (r.updatedAt !== (r.settledAt ?? r.createdAt)) text += `,"u":${r.updatedAt}`;
  if (r.version !== 1) text += `,"version":${r.version}`;
  if (r.attempt !== 1) text += `,"attempt":${r.attempt}`;
  if (r.fence !== 1) text += `,"fence":${r.fence}`;
  if (r.tries !== 1) text += `,"tries":${r.tries}`;
  if (r.queued) text += `,"queued":true`;
  if (r.terms !== null) text += `,"terms":${JSON.stringify(r.terms)}`;
  if (r.dueAt !== null) text += `,"dueAt":${r.dueAt}`;
  if (r.lastSentAt !== r.firstSentAt) text += `,"lastSentAt":${r.lastSentAt}`;
  if (r.doubted) text += `,"doubted":true`;
  if (r.doubtSince !== null) text += `,"doubtSince":${r.doubtSince}`;
  if (r.doubtMark !== null) text += `,"doubtMark":${JSON.stringify(r.doubtMark)}`;
  if (r.why !== null) text += `,"why":${JSON.stringify(r.why)}`;
  if (r.final) text += `,"final":true`;
  if (r.error !== null) text += `,"error":${JSON.stringify(r.error)}`;
  if (r.agent !== null) text += `,"agent":${JSON.stringify(r.agent)}`;
  if (r.providerId !== null) text += `,"providerId":${JSON.stringify(r.providerId)}`;
  if (r.history.length > 0) text += `,"history":${JSON.stringify(r.history)}`;
  return `${text}}`;
}

function printsOf({ holder, fingerprint }: LedgerRecord): Doc["f"] {
  const { guarded, fields, free } = fingerprint;
  if (isLone(fingerprint)) return [holder, guarded];
  return free === null ? [holder, guarded, fields] : [holder, guarded, fields, free];
}

function fingerprintOf({ f: [, guarded, fields, free] }: Doc): Fingerprint {
  return fields === undefined ? loneFingerprint(guarded) : { guarded, free: free ?? null, fields };
}

/** A mark on the clock of the lease beside it needs no name of the clock. */
function markText(mark: SteadyMark, lease: Lease | null): string {
  return lease !== null && lease.epoch === mark.epoch ? String(mark.at) : JSON.stringify(mark);
}

/** A document as it was written, whatever was left out of it. */
type Doc = Partial<LedgerRecord> & {
  readonly f: readonly [
    holder: string | null,
    guarded: string,
    fields?: Readonly<Record<string, string>>,
    free?: string,
  ];
  readonly k?: number;
  readonly s?: number | true;
  readonly m?: number | SteadyMark;
  readonly d?: number;
  readonly u?: number;
};

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
  if (!isIntact(row)) throw damaged(row.key, where);
  let doc: Doc;
  let fingerprint: Fingerprint;
  try {
    doc = JSON.parse(row.doc as string);
    fingerprint = fingerprintOf(doc);
  } catch {
    throw damaged(row.key, where);
  }
  const [holder] = doc.f;
  const createdAt = row.created_at as number;
  const epoch = row.lease_epoch as string;
  const firstSentAt = doc.s === true ? createdAt : (doc.s ?? null);
  const record: LedgerRecord = {
    key: row.key as string,
    tenant: row.tenant as string,
    action: row.action as string,
    version: doc.version ?? 1,
    scope: row.scope as string | null,
    agent: doc.agent ?? null,
    state: row.state as LedgerRecord["state"],
    attempt: doc.attempt ?? 1,
    fence: doc.fence ?? 1,
    tries: doc.tries ?? 1,
    holder,
    lease: row.lease_until === null ? null : { until: row.lease_until as number, epoch },
    queued: doc.queued ?? false,
    terms: doc.terms ?? null,
    createdAt,
    updatedAt: doc.u ?? doc.d ?? createdAt,
    dueAt: doc.dueAt ?? null,
    firstSentAt,
    lastSentAt: doc.lastSentAt === undefined ? firstSentAt : doc.lastSentAt,
    firstSentMark: typeof doc.m === "number" ? { at: doc.m, epoch } : (doc.m ?? null),
    doubted: doc.doubted ?? false,
    doubtSince: doc.doubtSince ?? null,
    doubtMark: doc.doubtMark ?? null,
    why: doc.why ?? null,
    settledAt: doc.d ?? null,
    expiresAt: row.expires_at as number | null,
    final: doc.final ?? false,
    draft: decodePayload(row.draft as string | null),
    result: decodePayload(row.result as string | null),
    providerId: doc.providerId ?? null,
    error: doc.error ?? null,
    history: doc.history ?? [],
    fingerprint,
    input: decodePayload(row.input as string | null),
    keepMs: doc.k ?? null,
  };
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
  const values: RowValues = [];
  for (const column of COLUMNS) {
    const value = row[column];
    // One bit makes a text a blob of the same bytes, and an empty blob joins into the checksum like an empty text.
    if (typeof value === "object" && value !== null) return false;
    values.push(value);
  }
  return checksum(textOf(values)) === row.sum;
}

function damaged(key: unknown, where: string): NevertwiceError {
  return damagedRecord({ key: String(key), where, what: "its row does not match its checksum" });
}

let crc32: ((text: string) => number) | undefined;

/** Node's module for it is loaded with the first row: a program on another store needs none of it. */
function checksum(text: string): number {
  crc32 ??= process.getBuiltinModule("node:zlib").crc32 as (text: string) => number;
  return crc32(text);
}
