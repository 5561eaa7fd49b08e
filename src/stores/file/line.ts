/**
 * One line of the JSONL ledger: a change, as plain JSON with a checksum at its end. What queries look at stands first,
 * so that the index is built without parsing inputs and results; the rest follows under "record".
 *
 *   {"rev":7,"commit":7,"key":"nt1_…","state":"sent","action":"send",…,"record":{…},"crc":"1c291ca3"}
 *
 * rev     grows by one with each line, over the whole life of the ledger
 * commit  the rev of the first line that was written and synced together with this one
 */
import { crc32 } from "node:zlib";
import type { LedgerRecord } from "../../core/record.ts";
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

const IN_HEAD = new Set<string>(HEAD);
// Inside a JSON string every quote is escaped, so these bytes can only be the member they look like.
const RECORD = ',"record":{';
const RECORD_BYTES = Buffer.from(RECORD);
const CRC = ',"crc":"';
const CRC_BYTES = Buffer.from(CRC);
/** The value of a lower-case hexadecimal digit, by its code. */
const HEX: readonly (number | undefined)[] = Array.from({ length: 103 }, (_, code) => {
  const value = "0123456789abcdef".indexOf(String.fromCharCode(code));
  return value === -1 ? undefined : value;
});
/** `,"crc":"` + 8 digits + `"}`; the newline is not counted. */
export const TAIL_BYTES = CRC.length + 8 + 2;
const NEWLINE = 10;
const ZERO = 48;
const BRACE = 125;
const QUOTE = 34;

const NO_RECORD: Omit<
  LedgerRecord,
  keyof Scanned | "version" | "attempt" | "fence" | "tries" | "fingerprint" | "history"
> = {
  holder: null,
  firstSentAt: null,
  lastSentAt: null,
  firstSentMark: null,
  doubted: false,
  doubtMark: null,
  why: null,
  keepMs: null,
  final: false,
  input: null,
  draft: null,
  result: null,
  error: null,
};

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

export function encodePut(record: LedgerRecord, rev: number, commit: number): string {
  let head = `{"rev":${rev},"commit":${commit}`;
  for (const field of HEAD) {
    const value = record[field];
    const usual = value === null || value === false || (field === "tenant" && value === "");
    if (!usual) head += `,"${field}":${JSON.stringify(value)}`;
  }
  const rest: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(record)) {
    if (!IN_HEAD.has(field) && value !== null && value !== false) rest[field] = value;
  }
  return sealed(`${head},"record":${JSON.stringify(rest)}`);
}

export function encodeGone(keys: readonly string[], rev: number, commit: number): string {
  return sealed(`{"rev":${rev},"commit":${commit},"gone":${JSON.stringify(keys)}`);
}

export function encodeHeader(header: Header): string {
  return sealed(JSON.stringify(header).slice(0, -1));
}

function sealed(open: string): string {
  return `${open}${CRC}${hex(crc32(open))}"}\n`;
}

function hex(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/** A line without its newline, where it stands in the bytes that were read. */
export interface Span {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

export function isIntact({ bytes, from, to }: Span): boolean {
  const end = to - TAIL_BYTES;
  if (end <= from || bytes[to - 1] !== BRACE || bytes[to - 2] !== QUOTE) return false;
  for (let i = 0; i < CRC_BYTES.length; i += 1) if (bytes[end + i] !== CRC_BYTES[i]) return false;
  let sum = 0;
  for (let at = end + CRC_BYTES.length; at < to - 2; at += 1) sum = sum * 16 + (HEX[bytes[at] as number] ?? Number.NaN);
  return sum === crc32(bytes.subarray(from, end));
}

/** Null: an intact line of something else. */
export function decodeHeader({ bytes, from, to }: Span): Header | null {
  const header = JSON.parse(bytes.toString("utf8", from, to)) as Partial<Header>;
  return header.nevertwice === "ledger" ? (header as Header) : null;
}

/** What the index wants to know of an intact line. */
export function decodeChange(span: Span): Change {
  return readHead(span) ?? parseHead(span);
}

function parseHead({ bytes, from, to }: Span): Change {
  const line = bytes.subarray(from, to);
  const cut = line.indexOf(RECORD_BYTES);
  const text = cut === -1 ? line.toString() : `${line.toString("utf8", 0, cut)}}`;
  const { rev, commit, gone, ...head } = JSON.parse(text) as { rev: number; commit: number; gone?: string[] } & Scanned;
  if (gone !== undefined) return { kind: "gone", rev, commit, keys: gone };
  return { kind: "put", rev, commit, head: { ...NO_HEAD, ...head } };
}

// A head is a few hundred bytes; a longer one has long names in it and is parsed the plain way.
const HEAD_BYTES = 500;
const NOT_PLAIN = /[\\\x80-\xff]/;

/**
 * The same, four times as fast, for heads as encodePut writes them: in its order, without escapes. A start reads every
 * line of the file once, so this is where its time goes. Null: not such a head.
 */
function readHead({ bytes, from, to }: Span): Change | null {
  const text = bytes.toString("latin1", from, Math.min(to, from + HEAD_BYTES));
  const end = text.indexOf(RECORD);
  if (end === -1) return null;
  const reader = new HeadReader(text);
  const rev = reader.number('{"rev":');
  const commit = reader.number(',"commit":');
  const keyAt = reader.at + ',"key":"'.length;
  const key = reader.text(',"key":');
  const state = reader.text(',"state":');
  const action = reader.text(',"action":');
  if (rev === null || commit === null || key === null || state === null || action === null) return null;
  const head: Scanned = {
    // A string of its own: a slice would keep the whole text it was cut from.
    key: bytes.toString("latin1", from + keyAt, from + keyAt + key.length),
    state: shared(state) as Scanned["state"],
    action: shared(action),
    tenant: shared(reader.text(',"tenant":') ?? ""),
    scope: ownOrNull(reader.text(',"scope":')),
    createdAt: reader.number(',"createdAt":') ?? Number.NaN,
    updatedAt: reader.number(',"updatedAt":') ?? Number.NaN,
    queued: reader.flag(',"queued":true'),
    // Rare, and nested: parsed the plain way.
    terms: null,
    dueAt: reader.number(',"dueAt":'),
    lease: reader.lease(),
    doubtSince: reader.number(',"doubtSince":'),
    settledAt: reader.number(',"settledAt":'),
    expiresAt: reader.number(',"expiresAt":'),
    agent: sharedOrNull(reader.text(',"agent":')),
    providerId: ownOrNull(reader.text(',"providerId":')),
  };
  return reader.at === end && reader.plain ? { kind: "put", rev, commit, head } : null;
}

/** Takes one member after the other; what is not there is null, and nothing is moved. */
class HeadReader {
  readonly #text: string;
  at = 0;
  /** No string so far had an escape or a character beyond ASCII in it. */
  plain = true;

  constructor(text: string) {
    this.#text = text;
  }

  number(name: string): number | null {
    if (!this.#text.startsWith(name, this.at)) return null;
    const start = this.at + name.length;
    let value = 0;
    for (let at = start; ; at += 1) {
      const digit = this.#text.charCodeAt(at) - ZERO;
      if (digit >= 0 && digit <= 9) value = value * 10 + digit;
      else {
        this.at = at;
        return value;
      }
    }
  }

  text(name: string): string | null {
    if (!this.#text.startsWith(`${name}"`, this.at)) return null;
    const start = this.at + name.length + 1;
    const end = this.#text.indexOf('"', start);
    this.at = end + 1;
    const value = this.#text.slice(start, end);
    if (NOT_PLAIN.test(value)) this.plain = false;
    return value;
  }

  flag(name: string): boolean {
    const found = this.#text.startsWith(name, this.at);
    if (found) this.at += name.length;
    return found;
  }

  /** {"until":12345.678,"epoch":"0f3c9a1b"} */
  lease(): Scanned["lease"] {
    const name = ',"lease":{"until":';
    if (!this.#text.startsWith(name, this.at)) return null;
    const start = this.at + name.length;
    this.at = this.#text.indexOf(",", start);
    const until = Number(this.#text.slice(start, this.at));
    const epoch = this.text(',"epoch":');
    // Anything else behind it, and the head is parsed the plain way.
    if (epoch === null || this.#text.charCodeAt(this.at) !== BRACE) return null;
    this.at += 1;
    return { until, epoch };
  }
}

// The same few names stand in every row: kept once, and no more than these, whatever a program calls its actions.
const MOST_SHARED = 1_000;
const names = new Map<string, string>();

/** A string of its own: a slice would keep the whole text it was cut from. */
function ownText(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

function ownOrNull(text: string | null): string | null {
  return text === null ? null : ownText(text);
}

function sharedOrNull(name: string | null): string | null {
  return name === null ? null : shared(name);
}

function shared(name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  const own = ownText(name);
  if (names.size < MOST_SHARED) names.set(own, own);
  return own;
}

/** The whole record of an intact line. */
export function decodeRecord({ bytes, from, to }: Span): LedgerRecord {
  const { rev: _rev, commit: _commit, crc: _crc, record, ...head } = JSON.parse(bytes.toString("utf8", from, to));
  return { ...NO_RECORD, ...NO_HEAD, ...head, history: [], ...record };
}

/** Where the next newline stands; -1: the line is not complete. */
export function lineEnd(bytes: Buffer, from: number): number {
  return bytes.indexOf(NEWLINE, from);
}
