/**
 * A record as one Redis string and back: 16 digits of row version, a letter for the state, a mark for queued work (what
 * the scripts look at), then short-named JSON with everything absent left out, a line break, the payloads as they are, and
 * a checksum. Memory is what a Redis pays for, and a payload inside JSON would be escaped twice.
 *
 * Times stand as their distance from `createdAt`: most are a few milliseconds, which is shorter to keep and quicker to write
 * than thirteen digits each.
 */
import { crc32 } from "node:zlib";
import { NevertwiceError } from "../core/errors.ts";
import type { Lease, LedgerRecord, Payload, State, SteadyMark } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { REDIS_EPOCH } from "./redis-clock.ts";
import { queueScore } from "./redis-index.ts";

const VERSION_DIGITS = 16;
const DOC_AT = VERSION_DIGITS + 2;
export const SUM_DIGITS = 8;

const LETTERS: Readonly<Record<State, string>> = {
  pending: "p",
  claimed: "c",
  sent: "s",
  confirmed: "d",
  failed: "f",
  unknown: "u",
};
export const STATE_OF_LETTER = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter, state as State]));

export function versionText(version: number): string {
  return version >= 1e15 ? `${version}` : String(version).padStart(VERSION_DIGITS, "0");
}

/** The row without its checksum, which `sumText` makes of the bytes of key and row. */
export function rowText(record: LedgerRecord, version: number): string {
  const queued = queueScore(record) === null ? "-" : "q";
  return versionText(version) + LETTERS[record.state] + queued + bodyOf(record);
}

/** Over the key too: a row that lies under another record's name is as wrong as one with a flipped bit. */
export function sumText(keyAndRow: Buffer | string): string {
  return crc32(keyAndRow).toString(16).padStart(SUM_DIGITS, "0");
}

function bodyOf(r: LedgerRecord): string {
  const input = payloadText(r.input);
  const draft = payloadText(r.draft);
  const result = payloadText(r.result);
  return `${docOf(r)},"P":[${length(input)},${length(draft)},${length(result)}]}\n${input ?? ""}${draft ?? ""}${result ?? ""}`;
}

/** Spelled out: a generic walk over thirty fields would cost more than the rest of a claim. `d` and `s` come first: stats look there. */
function docOf(r: LedgerRecord): string {
  const from = r.createdAt;
  let text = "{";
  if (r.dueAt !== null) text += `"d":${r.dueAt},`;
  if (r.doubtSince !== null) text += `"s":${r.doubtSince},`;
  text += `"a":${JSON.stringify(r.action)},"n":${r.attempt},"f":${r.fence},"r":${r.tries},"c":${from},"u":${since(r.updatedAt, from)}`;
  if (r.tenant !== "") text += `,"t":${JSON.stringify(r.tenant)}`;
  if (r.version !== 1) text += `,"v":${r.version}`;
  if (r.scope !== null) text += `,"p":${JSON.stringify(r.scope)}`;
  if (r.holder !== null) text += `,"h":${JSON.stringify(r.holder)}`;
  if (r.lease !== null) text += `,"l":${momentText(r.lease.until, r.lease.epoch, from)}`;
  if (r.queued) text += `,"q":1`;
  if (r.terms !== null) text += `,"T":${JSON.stringify(r.terms)}`;
  if (r.firstSentAt !== null) text += `,"x":${since(r.firstSentAt, from)}`;
  if (r.lastSentAt !== null) text += `,"y":${since(r.lastSentAt, from)}`;
  if (r.firstSentMark !== null) text += `,"X":${momentText(r.firstSentMark.at, r.firstSentMark.epoch, from)}`;
  if (r.doubted) text += `,"D":1`;
  if (r.doubtMark !== null) text += `,"S":${momentText(r.doubtMark.at, r.doubtMark.epoch, from)}`;
  if (r.why !== null) text += `,"w":${JSON.stringify(r.why)}`;
  if (r.settledAt !== null) text += `,"e":${since(r.settledAt, from)}`;
  if (r.expiresAt !== null) text += `,"E":${since(r.expiresAt, from)}`;
  if (r.keepMs !== null) text += `,"k":${r.keepMs}`;
  if (r.final) text += `,"F":1`;
  if (r.error !== null) text += `,"o":${JSON.stringify(r.error)}`;
  if (r.history.length > 0) text += `,"H":${JSON.stringify(r.history)}`;
  return `${text},"g":${JSON.stringify(r.fingerprint)}`;
}

/** The distance as a number; as text the time itself, where a distance would not lead back to it exactly. */
type Since = number | string;
type Moment = Since | readonly [number, string];

function since(at: number, from: number): Since {
  const distance = at - from;
  return from + distance === at ? distance : `"${at}"`;
}

function timeOf(value: Since, from: number): number {
  return typeof value === "number" ? from + value : Number(value);
}

/** Almost always on the server's own clock, which then goes without saying. */
function momentText(at: number, epoch: string, from: number): Since {
  return epoch === REDIS_EPOCH ? since(at, from) : JSON.stringify([at, epoch]);
}

function moment(value: Moment, from: number): { at: number; epoch: string } {
  if (typeof value === "object") return { at: value[0], epoch: value[1] };
  return { at: timeOf(value, from), epoch: REDIS_EPOCH };
}

// biome-ignore lint/suspicious/noExplicitAny: just parsed; every field is given its type below
type Doc = Record<string, any>;

export function decodeRow(key: string, value: string): Stored {
  const end = value.length - SUM_DIGITS;
  const state = STATE_OF_LETTER.get(value.charAt(VERSION_DIGITS));
  if (end < DOC_AT || state === undefined || sumText(key + value.slice(0, end)) !== value.slice(end))
    throw damaged(key);
  const lineEnd = value.indexOf("\n", DOC_AT);
  // Whole, but not in this layout: what begins otherwise is a later release's.
  if (value.charAt(DOC_AT) !== "{" || lineEnd < 0) throw written(key);
  const doc = JSON.parse(value.slice(DOC_AT, lineEnd)) as Doc;
  return {
    record: { key, state, ...fields(doc), ...payloads(doc.P, value, lineEnd + 1) },
    version: Number(value.slice(0, VERSION_DIGITS)),
  };
}

function fields(doc: Doc): Omit<LedgerRecord, "key" | "state" | "input" | "draft" | "result"> {
  const from = doc.c as number;
  const time = (value: Since | undefined) => (value === undefined ? null : timeOf(value, from));
  return {
    tenant: doc.t ?? "",
    action: doc.a,
    version: doc.v ?? 1,
    scope: doc.p ?? null,
    attempt: doc.n,
    fence: doc.f,
    tries: doc.r,
    holder: doc.h ?? null,
    lease: doc.l === undefined ? null : leaseOf(doc.l, from),
    queued: doc.q === 1,
    terms: doc.T ?? null,
    createdAt: from,
    updatedAt: timeOf(doc.u, from),
    dueAt: doc.d ?? null,
    firstSentAt: time(doc.x),
    lastSentAt: time(doc.y),
    firstSentMark: doc.X === undefined ? null : markOf(doc.X, from),
    doubted: doc.D === 1,
    doubtSince: doc.s ?? null,
    doubtMark: doc.S === undefined ? null : markOf(doc.S, from),
    why: doc.w ?? null,
    settledAt: time(doc.e),
    expiresAt: time(doc.E),
    keepMs: doc.k ?? null,
    final: doc.F === 1,
    fingerprint: doc.g,
    error: doc.o ?? null,
    history: doc.H ?? [],
  };
}

function leaseOf(value: Moment, from: number): Lease {
  const { at, epoch } = moment(value, from);
  return { until: at, epoch };
}

function markOf(value: Moment, from: number): SteadyMark {
  return moment(value, from);
}

const ABSENT = -1;
// JSON text starts with none of these.
const SEALED = "ntseal";
const OMITTED = "!";

function payloadText(payload: Payload | null): string | null {
  if (payload === null) return null;
  if ("json" in payload) return payload.json;
  return "sealed" in payload ? payload.sealed : OMITTED + payload.omitted;
}

function length(text: string | null): number {
  return text === null ? ABSENT : text.length;
}

function payloads([input, draft, result]: [number, number, number], value: string, start: number) {
  let from = start;
  const next = (size: number): Payload | null => {
    if (size === ABSENT) return null;
    const text = value.slice(from, from + size);
    from += size;
    if (text.startsWith(OMITTED)) return { omitted: text.slice(OMITTED.length) };
    return text.startsWith(SEALED) ? { sealed: text } : { json: text };
  };
  return { input: next(input), draft: next(draft), result: next(result) };
}

function damaged(key: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the Redis ledger is damaged: the record ${key} does not match its checksum. Nothing was run. Somebody else wrote to its key, or to a ledger with the same prefix; restore it from a backup, and give other programs another prefix.`,
    { key },
  );
}

function written(key: string): NevertwiceError {
  return new NevertwiceError(
    "CONFIG",
    `the record ${key} of the Redis ledger was written by a later release of nevertwice, in a layout this one cannot read. Nothing was run. Upgrade nevertwice here; all programs on one ledger should run the same release.`,
    { key },
  );
}
