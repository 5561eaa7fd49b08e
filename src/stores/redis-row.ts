/**
 * A record as one Redis string and back: 16 digits of row version, a letter for the state, a mark for queued work (what
 * the scripts look at), a checksum, then short-named JSON with everything absent left out, a line break, and the payloads
 * as they are. Memory is what a Redis pays for, and a payload inside JSON would be escaped twice.
 */
import { crc32 } from "node:zlib";
import { NevertwiceError } from "../core/errors.ts";
import type { Lease, LedgerRecord, Payload, State, SteadyMark } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { REDIS_EPOCH } from "./redis-clock.ts";
import { queueScore } from "./redis-index.ts";

export const VERSION_DIGITS = 16;
const SUM_AT = VERSION_DIGITS + 2;
const DOC_AT = SUM_AT + 8;

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
  return String(version).padStart(VERSION_DIGITS, "0");
}

export function encodeRow(record: LedgerRecord, version: number): string {
  const head = versionText(version) + LETTERS[record.state] + (queueScore(record) === null ? "-" : "q");
  const body = bodyOf(record);
  return head + checksum(head, record.key, body) + body;
}

function checksum(head: string, key: string, body: string): string {
  return crc32(head + key + body)
    .toString(16)
    .padStart(8, "0");
}

function bodyOf(r: LedgerRecord): string {
  const input = payloadText(r.input);
  const draft = payloadText(r.draft);
  const result = payloadText(r.result);
  return `${docOf(r)},"P":[${length(input)},${length(draft)},${length(result)}]}\n${input ?? ""}${draft ?? ""}${result ?? ""}`;
}

/** Spelled out: a generic walk over thirty fields would cost more than the rest of a claim. `d` and `s` come first: stats look there. */
function docOf(r: LedgerRecord): string {
  let text = "{";
  if (r.dueAt !== null) text += `"d":${r.dueAt},`;
  if (r.doubtSince !== null) text += `"s":${r.doubtSince},`;
  text += `"a":${JSON.stringify(r.action)},"n":${r.attempt},"f":${r.fence},"r":${r.tries},"c":${r.createdAt},"u":${r.updatedAt}`;
  if (r.tenant !== "") text += `,"t":${JSON.stringify(r.tenant)}`;
  if (r.version !== 1) text += `,"v":${r.version}`;
  if (r.scope !== null) text += `,"p":${JSON.stringify(r.scope)}`;
  if (r.holder !== null) text += `,"h":${JSON.stringify(r.holder)}`;
  if (r.lease !== null) text += `,"l":${momentText(r.lease.until, r.lease.epoch)}`;
  if (r.queued) text += `,"q":1`;
  if (r.terms !== null) text += `,"T":${JSON.stringify(r.terms)}`;
  if (r.firstSentAt !== null) text += `,"x":${r.firstSentAt}`;
  if (r.lastSentAt !== null) text += `,"y":${r.lastSentAt}`;
  if (r.firstSentMark !== null) text += `,"X":${momentText(r.firstSentMark.at, r.firstSentMark.epoch)}`;
  if (r.doubted) text += `,"D":1`;
  if (r.doubtMark !== null) text += `,"S":${momentText(r.doubtMark.at, r.doubtMark.epoch)}`;
  if (r.why !== null) text += `,"w":${JSON.stringify(r.why)}`;
  if (r.settledAt !== null) text += `,"e":${r.settledAt}`;
  if (r.expiresAt !== null) text += `,"E":${r.expiresAt}`;
  if (r.keepMs !== null) text += `,"k":${r.keepMs}`;
  if (r.final) text += `,"F":1`;
  if (r.error !== null) text += `,"o":${JSON.stringify(r.error)}`;
  if (r.history.length > 0) text += `,"H":${JSON.stringify(r.history)}`;
  return `${text},"g":${JSON.stringify(r.fingerprint)}`;
}

type Moment = number | readonly [number, string];

/** Almost always on the server's own clock, which then goes without saying. */
function momentText(at: number, epoch: string): string {
  return epoch === REDIS_EPOCH ? String(at) : JSON.stringify([at, epoch]);
}

function moment(value: Moment): { at: number; epoch: string } {
  return typeof value === "number" ? { at: value, epoch: REDIS_EPOCH } : { at: value[0], epoch: value[1] };
}

// biome-ignore lint/suspicious/noExplicitAny: just parsed; every field is given its type below
type Doc = Record<string, any>;

export function decodeRow(key: string, value: string): Stored {
  const lineEnd = value.indexOf("\n", DOC_AT);
  const state = STATE_OF_LETTER.get(value.charAt(VERSION_DIGITS));
  const body = value.slice(DOC_AT);
  if (lineEnd < 0 || state === undefined || checksum(value.slice(0, SUM_AT), key, body) !== value.slice(SUM_AT, DOC_AT))
    throw damaged(key);
  const doc = JSON.parse(value.slice(DOC_AT, lineEnd)) as Doc;
  return {
    record: { key, state, ...fields(doc), ...payloads(doc.P, value, lineEnd + 1) },
    version: Number(value.slice(0, VERSION_DIGITS)),
  };
}

function fields(doc: Doc): Omit<LedgerRecord, "key" | "state" | "input" | "draft" | "result"> {
  return {
    tenant: doc.t ?? "",
    action: doc.a,
    version: doc.v ?? 1,
    scope: doc.p ?? null,
    attempt: doc.n,
    fence: doc.f,
    tries: doc.r,
    holder: doc.h ?? null,
    lease: doc.l === undefined ? null : leaseOf(doc.l),
    queued: doc.q === 1,
    terms: doc.T ?? null,
    createdAt: doc.c,
    updatedAt: doc.u,
    dueAt: doc.d ?? null,
    firstSentAt: doc.x ?? null,
    lastSentAt: doc.y ?? null,
    firstSentMark: doc.X === undefined ? null : markOf(doc.X),
    doubted: doc.D === 1,
    doubtSince: doc.s ?? null,
    doubtMark: doc.S === undefined ? null : markOf(doc.S),
    why: doc.w ?? null,
    settledAt: doc.e ?? null,
    expiresAt: doc.E ?? null,
    keepMs: doc.k ?? null,
    final: doc.F === 1,
    fingerprint: doc.g,
    error: doc.o ?? null,
    history: doc.H ?? [],
  };
}

function leaseOf(value: Moment): Lease {
  const { at, epoch } = moment(value);
  return { until: at, epoch };
}

function markOf(value: Moment): SteadyMark {
  return moment(value);
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
