/**
 * One line of the JSONL ledger: a change, as plain JSON with a checksum at its end. What queries look at stands first,
 * so that the index is built without parsing inputs and results; the rest follows under "record".
 *
 *   {"rev":7,"commit":7,"key":"nt1_…","state":"sent","action":"send",…,"record":{…},"crc":"1c291ca3"}
 *
 * rev     grows by one with each line, over the whole life of the ledger
 * commit  the rev of the first line that was written and synced together with this one
 */
import { BLANK_RECORD, type LedgerRecord } from "../../core/record.ts";
import { hexSum, SUM_DIGITS } from "../shared/checksum.ts";
import { completed, packed, plainLayout } from "../shared/codec.ts";
import type { Scanned } from "../shared/scan.ts";

export const FORMAT = 1;

/** The first line of the file. */
export interface Header {
  readonly nevertwice: "ledger";
  readonly format: number;
  readonly id: string;
  /** Lines that a compaction wrote right behind the header: all of them were synced before the file had its name. */
  readonly compacted: number;
  /** The rev before the first line that was appended since. */
  readonly rev: number;
}

export type Change =
  | { readonly kind: "put"; readonly rev: number; readonly commit: number; readonly head: Scanned }
  | { readonly kind: "gone"; readonly rev: number; readonly commit: number; readonly keys: readonly string[] };

const HEAD = [
  "key",
  "state",
  "action",
  "tenant",
  "scope",
  "createdAt",
  "updatedAt",
  "queued",
  "terms",
  "dueAt",
  "lease",
  "doubtSince",
  "settledAt",
  "expiresAt",
  "agent",
  "providerId",
] as const satisfies readonly (keyof Scanned)[];

const REST = plainLayout(
  ...(Object.keys(BLANK_RECORD) as (keyof LedgerRecord)[]).filter(
    (field) => !(HEAD as readonly string[]).includes(field),
  ),
);
const NO_HEAD = {
  tenant: "",
  scope: null,
  queued: false,
  terms: null,
  dueAt: null,
  lease: null,
  doubtSince: null,
  settledAt: null,
  expiresAt: null,
  agent: null,
  providerId: null,
};

// Inside a JSON string every quote is escaped, so these bytes can only be the member they look like.
const RECORD_BYTES = Buffer.from(',"record":{');
const CRC = ',"crc":"';
/** `,"crc":"` + 8 digits + `"}`; the newline is not counted. */
export const TAIL_BYTES = CRC.length + SUM_DIGITS + 2;
const NEWLINE = 10;

export function encodePut(record: LedgerRecord, rev: number, commit: number): string {
  let head = `{"rev":${rev},"commit":${commit}`;
  for (const field of HEAD) {
    const value = record[field];
    const usual = value === null || value === false || (field === "tenant" && value === "");
    if (!usual) head += `,"${field}":${JSON.stringify(value)}`;
  }
  return sealed(`${head},"record":${JSON.stringify(packed(record, REST))}`);
}

export function encodeGone(keys: readonly string[], rev: number, commit: number): string {
  return sealed(`{"rev":${rev},"commit":${commit},"gone":${JSON.stringify(keys)}`);
}

export function encodeHeader(header: Header): string {
  return sealed(JSON.stringify(header).slice(0, -1));
}

function sealed(open: string): string {
  return `${open}${tail(open)}\n`;
}

function tail(open: string | Buffer): string {
  return `${CRC}${hexSum(open)}"}`;
}

/** A line without its newline, where it stands in the bytes that were read. */
export interface Span {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

export function isIntact({ bytes, from, to }: Span): boolean {
  const end = to - TAIL_BYTES;
  return end > from && bytes.toString("latin1", end, to) === tail(bytes.subarray(from, end));
}

/** Null: an intact line of something else. */
export function decodeHeader({ bytes, from, to }: Span): Header | null {
  const header = JSON.parse(bytes.toString("utf8", from, to)) as Partial<Header>;
  return header.nevertwice === "ledger" ? (header as Header) : null;
}

/** What the index wants to know of an intact line: inputs and results are not parsed for it. */
export function decodeChange({ bytes, from, to }: Span): Change {
  const line = bytes.subarray(from, to);
  const cut = line.indexOf(RECORD_BYTES);
  const text = cut === -1 ? line.toString() : `${line.toString("utf8", 0, cut)}}`;
  const { rev, commit, gone, ...head } = JSON.parse(text) as { rev: number; commit: number; gone?: string[] } & Scanned;
  if (gone !== undefined) return { kind: "gone", rev, commit, keys: gone };
  return { kind: "put", rev, commit, head: { ...NO_HEAD, ...head } };
}

/** The whole record of an intact line. */
export function decodeRecord({ bytes, from, to }: Span): LedgerRecord {
  const { rev: _rev, commit: _commit, crc: _crc, record, ...head } = JSON.parse(bytes.toString("utf8", from, to));
  return completed({ ...head, ...record });
}

/** Where the next newline stands; -1: the line is not complete. */
export function lineEnd(bytes: Buffer, from: number): number {
  return bytes.indexOf(NEWLINE, from);
}
