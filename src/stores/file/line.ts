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
  const cut = bytes.indexOf(RECORD_BYTES, from);
  const text = cut === -1 || cut > to ? bytes.toString("utf8", from, to) : `${bytes.toString("utf8", from, cut)}}`;
  const line = JSON.parse(text) as Partial<Scanned> & { rev: number; commit: number; gone?: string[] };
  const { rev, commit, gone } = line;
  return gone === undefined
    ? { kind: "put", rev, commit, head: headOf(line) }
    : { kind: "gone", rev, commit, keys: gone };
}

/** Spelled out, so that all heads have one shape: there are as many in memory as there are records. */
function headOf(line: Partial<Scanned>): Scanned {
  return {
    key: line.key as string,
    state: shared(line.state as string) as Scanned["state"],
    action: shared(line.action as string),
    tenant: shared(line.tenant ?? ""),
    scope: line.scope ?? null,
    createdAt: line.createdAt as number,
    updatedAt: line.updatedAt as number,
    queued: line.queued ?? false,
    terms: line.terms ?? null,
    dueAt: line.dueAt ?? null,
    lease: line.lease ?? null,
    doubtSince: line.doubtSince ?? null,
    settledAt: line.settledAt ?? null,
    expiresAt: line.expiresAt ?? null,
    agent: line.agent === undefined || line.agent === null ? null : shared(line.agent),
    providerId: line.providerId ?? null,
  };
}

// The same few names stand in every row: kept once, and no more than these, whatever a program calls its actions.
const MOST_SHARED = 1_000;
const names = new Map<string, string>();

function shared(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  if (names.size < MOST_SHARED) names.set(name, name);
  return name;
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
