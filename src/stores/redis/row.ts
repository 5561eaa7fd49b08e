/**
 * A record as one Redis string and back: 16 digits of row version, a letter for the state, a mark for queued work (what
 * the scripts look at), then JSON with short names and without default values, a line break, the payloads as they are, and
 * a checksum. Memory is what a Redis pays for, and a payload inside JSON would be escaped twice.
 *
 * Times stand as their distance from `createdAt`: most are a few milliseconds, which is shorter than thirteen digits each.
 */
import { damagedRecord, newerRecord } from "../../core/damaged-record.ts";
import type { Fingerprint, LedgerRecord, State } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
import { hexSum, SUM_DIGITS } from "../shared/checksum.ts";
import {
  completed,
  type Doc,
  fingerprintOf,
  type Known,
  layout,
  loneDigest,
  packed,
  unpacked,
} from "../shared/codec.ts";
import { decodePayload, encodePayload } from "../shared/payload-text.ts";
import { REDIS_EPOCH } from "./clock.ts";
import { queueScore } from "./members.ts";

export const VERSION_DIGITS = 16;
const DOC_AT = VERSION_DIGITS + 2;

const LETTERS: Readonly<Record<State, string>> = {
  pending: "p",
  claimed: "c",
  sent: "s",
  confirmed: "d",
  failed: "f",
  unknown: "u",
};
export const STATE_OF_LETTER = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter, state as State]));

/** `d` and `s` come first: stats look there. Behind them, `g` is the fingerprint and `P` the lengths of the payloads. */
const DOC = layout({
  dueAt: "d",
  doubtSince: "s",
  action: "a",
  createdAt: "c",
  attempt: "n",
  fence: "f",
  tries: "r",
  updatedAt: "u",
  tenant: "t",
  version: "v",
  scope: "p",
  agent: "A",
  holder: "h",
  lease: "l",
  queued: "q",
  terms: "T",
  firstSentAt: "x",
  lastSentAt: "y",
  firstSentMark: "X",
  doubted: "D",
  doubtMark: "S",
  why: "w",
  settledAt: "e",
  expiresAt: "E",
  keepMs: "k",
  final: "F",
  providerId: "i",
  error: "o",
  history: "H",
});
const FLAGS = ["q", "D", "F"];
const TIMES = ["u", "x", "y", "e", "E"];
const PAYLOADS = ["input", "draft", "result"] as const;
const ABSENT = -1;

export function versionText(version: number): string {
  return String(version).padStart(VERSION_DIGITS, "0");
}

export function encodeRow(record: LedgerRecord, version: number): string {
  const doc = packed(record, DOC);
  const { createdAt: from, lease, firstSentMark, doubtMark } = record;
  for (const name of FLAGS) if (doc[name] !== undefined) doc[name] = 1;
  for (const name of TIMES) if (typeof doc[name] === "number") doc[name] = since(doc[name], from);
  if (lease !== null) doc.l = momentOf(lease.until, lease.epoch, from);
  if (firstSentMark !== null) doc.X = momentOf(firstSentMark.at, firstSentMark.epoch, from);
  if (doubtMark !== null) doc.S = momentOf(doubtMark.at, doubtMark.epoch, from);
  doc.g = printsOf(record.fingerprint);
  const payloads = PAYLOADS.map((name) => encodePayload(record[name]));
  doc.P = payloads.map((text) => text?.length ?? ABSENT);
  const head = `${versionText(version)}${LETTERS[record.state]}${queueScore(record) === null ? "-" : "q"}`;
  const row = `${head}${JSON.stringify(doc)}\n${payloads.join("")}`;
  return row + sumOf(record.key, row);
}

/** Over the key too: a row that lies under another record's name is as wrong as one with a flipped bit. */
function sumOf(key: string, row: string): string {
  return hexSum(key + row);
}

/** [guarded, free, name, digest, name, digest …]; of a lone field [guarded]. */
function printsOf(fingerprint: Fingerprint): readonly (string | null)[] {
  const { guarded, free, fields } = fingerprint;
  return loneDigest(fingerprint) === undefined ? [guarded, free, ...Object.entries(fields).flat()] : [guarded];
}

function fingerprintFrom([guarded, free, ...pairs]: readonly string[]): Fingerprint {
  const names = pairs.filter((_, i) => i % 2 === 0);
  const fields = Object.fromEntries(names.map((name, i) => [name, pairs[2 * i + 1] as string]));
  return fingerprintOf(guarded as string, free, free === undefined ? undefined : fields);
}

/** The distance as a number; as text the time itself, where a distance would not lead back to it exactly. */
type Since = number | string;

function since(at: number, from: number): Since {
  const distance = at - from;
  return from + distance === at ? distance : String(at);
}

function timeOf(value: Since, from: number): number {
  return typeof value === "number" ? from + value : Number(value);
}

/** Almost always on the server's own clock, whose name is then omitted. */
function momentOf(at: number, epoch: string, from: number): Since | readonly [number, string] {
  return epoch === REDIS_EPOCH ? since(at, from) : [at, epoch];
}

function momentFrom(value: unknown, from: number): { at: number; epoch: string } {
  if (Array.isArray(value)) return { at: value[0], epoch: value[1] };
  return { at: timeOf(value as Since, from), epoch: REDIS_EPOCH };
}

export function decodeRow(key: string, value: string): Stored {
  const end = value.length - SUM_DIGITS;
  const state = STATE_OF_LETTER.get(value.charAt(VERSION_DIGITS));
  if (end < DOC_AT || state === undefined || sumOf(key, value.slice(0, end)) !== value.slice(end)) throw damaged(key);
  const lineEnd = value.indexOf("\n", DOC_AT);
  // Whole, but not in this layout: what begins otherwise is a later release's.
  if (value.charAt(DOC_AT) !== "{" || lineEnd < 0) throw written(key);
  const doc = JSON.parse(value.slice(DOC_AT, lineEnd)) as Doc;
  const record = completed({ key, state, ...fieldsOf(doc), ...payloadsOf(doc.P as number[], value, lineEnd + 1) });
  return { record, version: Number(value.slice(0, VERSION_DIGITS)) };
}

function fieldsOf(doc: Doc): Omit<Known, "key" | "state"> {
  const from = doc.c as number;
  for (const name of FLAGS) if (doc[name] !== undefined) doc[name] = true;
  for (const name of TIMES)
    if (doc[name] !== undefined && doc[name] !== null) doc[name] = timeOf(doc[name] as Since, from);
  for (const name of ["l", "X", "S"]) if (doc[name] !== undefined) doc[name] = momentFrom(doc[name], from);
  if (doc.l !== undefined) {
    const { at, epoch } = doc.l as { at: number; epoch: string };
    doc.l = { until: at, epoch };
  }
  return { ...unpacked(doc, DOC), fingerprint: fingerprintFrom(doc.g as string[]) } as Omit<Known, "key" | "state">;
}

function payloadsOf(lengths: readonly number[], value: string, start: number) {
  let from = start;
  const [input, draft, result] = lengths.map((length) => {
    if (length === ABSENT) return null;
    from += length;
    return decodePayload(value.slice(from - length, from));
  });
  return { input: input ?? null, draft: draft ?? null, result: result ?? null };
}

function damaged(key: string) {
  return damagedRecord({
    key,
    where: "in Redis",
    what: "it does not match its checksum. Somebody else wrote to its key: give other programs another prefix",
  });
}

function written(key: string) {
  return newerRecord(
    key,
    `the record ${key} of the Redis ledger was written by a later release of nevertwice, in a layout this one cannot read. Nothing was run. Upgrade nevertwice here; all programs on one ledger should run the same release.`,
  );
}
