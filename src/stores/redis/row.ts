/**
 * A record as one Redis string and back: 16 digits of row version, a letter for the state, a mark for queued work (what
 * the scripts look at), then short-named JSON with everything absent left out, a line break, the payloads as they are, and
 * a checksum. Memory is what a Redis pays for, and a payload inside JSON would be escaped twice.
 *
 * Times stand as their distance from `createdAt`: most are a few milliseconds, which is shorter to keep and quicker to write
 * than thirteen digits each.
 */
import { crc32 } from "node:zlib";
import { damagedRecord, markDamaged } from "../../core/damaged-record.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { isLone, loneFingerprint } from "../../core/key/fingerprint.ts";
import type { Fingerprint, Lease, LedgerRecord, Payload, State, SteadyMark } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
import { decodePayload, encodePayload } from "../shared/payload-text.ts";
import { REDIS_EPOCH } from "./clock.ts";
import { queueScore } from "./members.ts";
import type { ByteWriter } from "./writer.ts";

export const VERSION_DIGITS = 16;
const DOC_AT = VERSION_DIGITS + 2;
const SUM_DIGITS = 8;

const LETTERS: Readonly<Record<State, string>> = {
  pending: "p",
  claimed: "c",
  sent: "s",
  confirmed: "d",
  failed: "f",
  unknown: "u",
};
export const STATE_OF_LETTER = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter, state as State]));

/** The row without its checksum, which `sumOf` makes of the bytes of key and row. */
export function writeRow(to: ByteWriter, record: LedgerRecord, version: number): void {
  to.padded(version, VERSION_DIGITS);
  to.text(LETTERS[record.state]);
  to.text(queueScore(record) === null ? "-" : "q");
  writeDoc(to, record);
  const input = encodePayload(record.input);
  const draft = encodePayload(record.draft);
  const result = encodePayload(record.result);
  to.text(',"P":[');
  to.number(length(input));
  to.text(",");
  to.number(length(draft));
  to.text(",");
  to.number(length(result));
  to.text("]}\n");
  if (input !== null) to.text(input);
  if (draft !== null) to.text(draft);
  if (result !== null) to.text(result);
}

/** Over the key too: a row that lies under another record's name is as wrong as one with a flipped bit. */
export function sumOf(keyAndRow: Buffer | string): number {
  return crc32(keyAndRow);
}

// Of attempts, fences and tries.
const FIRST = 1;

/**
 * What is as usual is left out: the first try, sent once, changed when it was created or settled. Spelled out: a generic
 * walk over thirty fields would cost more than the rest of a claim. `d` and `s` come first: stats look there.
 */
function writeDoc(to: ByteWriter, r: LedgerRecord): void {
  const from = r.createdAt;
  to.text("{");
  if (r.dueAt !== null) writeDated(to, '"d":', r.dueAt);
  if (r.doubtSince !== null) writeDated(to, '"s":', r.doubtSince);
  writeText(to, '"a":', r.action);
  writeNumber(to, ',"c":', from);
  if (r.attempt !== FIRST) writeNumber(to, ',"n":', r.attempt);
  if (r.fence !== FIRST) writeNumber(to, ',"f":', r.fence);
  if (r.tries !== FIRST) writeNumber(to, ',"r":', r.tries);
  if (r.updatedAt !== (r.settledAt ?? from)) writeTime(to, ',"u":', r.updatedAt, from);
  if (r.tenant !== "") writeText(to, ',"t":', r.tenant);
  if (r.version !== 1) writeNumber(to, ',"v":', r.version);
  if (r.scope !== null) writeText(to, ',"p":', r.scope);
  if (r.agent !== null) writeText(to, ',"A":', r.agent);
  if (r.holder !== null) writeText(to, ',"h":', r.holder);
  if (r.lease !== null) writeMoment(to, ',"l":', r.lease.until, r.lease.epoch, from);
  if (r.queued) to.text(',"q":1');
  if (r.terms !== null) to.text(`,"T":${JSON.stringify(r.terms)}`);
  if (r.firstSentAt !== null) writeTime(to, ',"x":', r.firstSentAt, from);
  if (r.lastSentAt === null && r.firstSentAt !== null) to.text(',"y":null');
  else if (r.lastSentAt !== null && r.lastSentAt !== r.firstSentAt) writeTime(to, ',"y":', r.lastSentAt, from);
  if (r.firstSentMark !== null) writeMoment(to, ',"X":', r.firstSentMark.at, r.firstSentMark.epoch, from);
  if (r.doubted) to.text(',"D":1');
  if (r.doubtMark !== null) writeMoment(to, ',"S":', r.doubtMark.at, r.doubtMark.epoch, from);
  if (r.why !== null) writeText(to, ',"w":', r.why);
  if (r.settledAt !== null) writeTime(to, ',"e":', r.settledAt, from);
  if (r.expiresAt !== null) writeTime(to, ',"E":', r.expiresAt, from);
  if (r.keepMs !== null) writeNumber(to, ',"k":', r.keepMs);
  if (r.final) to.text(',"F":1');
  if (r.providerId !== null) writeText(to, ',"i":', r.providerId);
  if (r.error !== null) to.text(`,"o":${JSON.stringify(r.error)}`);
  if (r.history.length > 0) to.text(`,"H":${JSON.stringify(r.history)}`);
  writeFingerprint(to, r.fingerprint);
}

function writeText(to: ByteWriter, name: string, text: string): void {
  to.text(name);
  to.json(text);
}

function writeNumber(to: ByteWriter, name: string, value: number): void {
  to.text(name);
  to.number(value);
}

/** In front of the others, as the scripts look for it. */
function writeDated(to: ByteWriter, name: string, at: number): void {
  writeNumber(to, name, at);
  to.text(",");
}

/** [guarded, free, name, digest, name, digest …]; of a lone field [guarded]. */
function writeFingerprint(to: ByteWriter, fingerprint: Fingerprint): void {
  const { guarded, free, fields } = fingerprint;
  writeText(to, ',"g":[', guarded);
  if (isLone(fingerprint)) {
    to.text("]");
    return;
  }
  if (free === null) to.text(",null");
  else writeText(to, ",", free);
  for (const name of Object.keys(fields)) {
    writeText(to, ",", name);
    writeText(to, ",", fields[name] as string);
  }
  to.text("]");
}

function fingerprintOf([guarded, free, ...pairs]: readonly string[]): Fingerprint {
  if (free === undefined) return loneFingerprint(guarded as string);
  const fields: [string, string][] = [];
  for (let i = 0; i + 1 < pairs.length; i += 2) fields.push([pairs[i] as string, pairs[i + 1] as string]);
  return { guarded: guarded as string, free: free ?? null, fields: Object.fromEntries(fields) };
}

/** The distance as a number; as text the time itself, where a distance would not lead back to it exactly. */
type Since = number | string;
type Moment = Since | readonly [number, string];

function writeTime(to: ByteWriter, name: string, at: number, from: number): void {
  const distance = at - from;
  to.text(name);
  if (from + distance === at) to.number(distance);
  else to.json(String(at));
}

function timeOf(value: Since, from: number): number {
  return typeof value === "number" ? from + value : Number(value);
}

/** Almost always on the server's own clock, which then goes without saying. */
function writeMoment(to: ByteWriter, name: string, at: number, epoch: string, from: number): void {
  if (epoch === REDIS_EPOCH) writeTime(to, name, at, from);
  else to.text(name + JSON.stringify([at, epoch]));
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
  if (end < DOC_AT || state === undefined || sumOf(key + value.slice(0, end)) !== Number.parseInt(value.slice(end), 16))
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
  const time = (value: Since | null | undefined) =>
    value === undefined || value === null ? null : timeOf(value, from);
  const firstSentAt = time(doc.x);
  const settledAt = time(doc.e);
  return {
    tenant: doc.t ?? "",
    action: doc.a,
    version: doc.v ?? 1,
    scope: doc.p ?? null,
    agent: doc.A ?? null,
    attempt: doc.n ?? FIRST,
    fence: doc.f ?? FIRST,
    tries: doc.r ?? FIRST,
    holder: doc.h ?? null,
    lease: doc.l === undefined ? null : leaseOf(doc.l, from),
    queued: doc.q === 1,
    terms: doc.T ?? null,
    createdAt: from,
    updatedAt: time(doc.u) ?? settledAt ?? from,
    dueAt: doc.d ?? null,
    firstSentAt,
    lastSentAt: doc.y === undefined ? firstSentAt : time(doc.y),
    firstSentMark: doc.X === undefined ? null : markOf(doc.X, from),
    doubted: doc.D === 1,
    doubtSince: doc.s ?? null,
    doubtMark: doc.S === undefined ? null : markOf(doc.S, from),
    why: doc.w ?? null,
    settledAt,
    expiresAt: time(doc.E),
    keepMs: doc.k ?? null,
    final: doc.F === 1,
    fingerprint: fingerprintOf(doc.g),
    providerId: doc.i ?? null,
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

function length(text: string | null): number {
  return text === null ? ABSENT : text.length;
}

function payloads([input, draft, result]: [number, number, number], value: string, start: number) {
  let from = start;
  const next = (size: number): Payload | null => {
    if (size === ABSENT) return null;
    const text = value.slice(from, from + size);
    from += size;
    return decodePayload(text);
  };
  return { input: next(input), draft: next(draft), result: next(result) };
}

function damaged(key: string): NevertwiceError {
  return damagedRecord({
    key,
    where: "in Redis",
    what: "it does not match its checksum. Somebody else wrote to its key: give other programs another prefix",
  });
}

/** Not damaged, but this release cannot read it: for whoever works through many records that is the same. */
function written(key: string): NevertwiceError {
  return markDamaged(
    new NevertwiceError(
      "CONFIG",
      `the record ${key} of the Redis ledger was written by a later release of nevertwice, in a layout this one cannot read. Nothing was run. Upgrade nevertwice here; all programs on one ledger should run the same release.`,
      { key },
    ),
  );
}
