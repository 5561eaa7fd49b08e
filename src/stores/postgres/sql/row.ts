/**
 * A record as a row and back. Everything travels as text, both ways, and is cast in SQL: pools come with type parsers
 * of their own, query builders rename columns, and neither must change what a record says.
 */
import { damagedRecord } from "../../../core/damaged-record.ts";
import { attentionAt, type Fingerprint, type LedgerRecord, type State, type SteadyMark } from "../../../core/record.ts";
import type { Stored } from "../../../core/store.ts";
import {
  completed,
  type Doc,
  fingerprintOf,
  isObject,
  isPlain,
  loneDigest,
  packed,
  plainLayout,
  requireSound,
  unpacked,
} from "../../shared/codec.ts";
import { decodePayload, encodePayload } from "../../shared/payload-text.ts";
import { keyFromHex } from "./key.ts";

export type SqlText = string | null;
/** As a query returns it: columns are c0, c1, … in the order of COLUMNS. */
export type Row = Readonly<Record<string, SqlText>>;

type Type = "bytea" | "text" | "bigint" | "integer" | "boolean" | "double precision";
type Value = string | number | boolean | null;

/** A put that will be written: its record, its key in hexadecimal, and the revision that its row will have. */
export interface Written {
  readonly record: LedgerRecord;
  readonly hex: string;
  readonly rev: number;
}

export interface Column {
  readonly name: string;
  readonly type: Type;
  /** What the row is to hold. Two rows for which it is the same hold the same. */
  value(written: Written, now: number): Value;
}

// A claim this old is in the index of what wants attention; a younger one is found by its creation (stores/postgres/sql/groups.ts),
// unless it is queued: workers look for what silent ones left more often than a sweep does, and find it in that index.
export const YOUNG_MS = 60_000;
/**
 * The kind of attention a claim wants that is queued, or no longer young. Its time is one that no heartbeat changes: the
 * creation, or what a lease found there.
 */
export const LEASED = "leased";
/** keep_ms of what is kept forever: an index column that is never null. */
const FOREVER = -1;
/** The mark of a first send that the same clock took as the time beside it. */
export const SAME_MARK = "=";

function column(name: string, type: Type, of: (record: LedgerRecord, now: number) => Value): Column {
  return { name, type, value: ({ record }, now) => of(record, now) };
}

/** What no settle changes. */
const FIXED: readonly Column[] = [
  { name: "key", type: "bytea", value: ({ hex }) => hex },
  column("tenant", "text", ({ tenant }) => tenant),
  column("action", "text", ({ action }) => action),
  column("scope", "text", ({ scope }) => scope),
  column("created_at", "bigint", ({ createdAt }) => createdAt),
  column("keep_ms", "bigint", keepClass),
  column("queued", "boolean", ({ queued }) => queued),
  column("doc", "text", docOf),
  column("input", "text", ({ input }) => encodePayload(input)),
  column("draft", "text", ({ draft }) => encodePayload(draft)),
  column("agent", "text", ({ agent }) => agent),
];

/** What a settle may change. The revision is counted in SQL. */
export const SETTLED: readonly Column[] = [
  column("state", "text", ({ state }) => state),
  column("attempt", "integer", ({ attempt }) => attempt),
  column("fence", "integer", ({ fence }) => fence),
  column("tries", "integer", ({ tries }) => tries),
  column("holder", "text", ({ holder }) => holder),
  column("lease_until", "double precision", ({ lease }) => lease?.until ?? null),
  // "" is this store's own clock; any other epoch is a lease that is over.
  column("lease_epoch", "text", ({ lease }) => lease?.epoch || null),
  column("updated_at", "bigint", ({ updatedAt }) => updatedAt),
  column("first_sent_at", "bigint", ({ firstSentAt }) => firstSentAt),
  column("last_sent_at", "bigint", ({ lastSentAt }) => lastSentAt),
  column("sent_mark", "text", ({ firstSentMark, firstSentAt }) => encodeMark(firstSentMark, firstSentAt)),
  column("attention", "text", attentionKind),
  column("attention_at", "bigint", (record, now) => {
    const kind = attentionKind(record, now);
    return kind === null ? null : kind === LEASED ? record.createdAt : (attentionAt(record) ?? 0);
  }),
  column("expires_at", "bigint", ({ expiresAt }) => expiresAt),
  column("fate", "text", fateOf),
  column("result", "text", ({ result }) => encodePayload(result)),
  column("provider_id", "text", ({ providerId }) => providerId),
];

export const REV: Column = { name: "rev", type: "bigint", value: ({ rev }) => rev };
/** They name a row. */
export const NAMING: readonly Column[] = FIXED.slice(0, 2);
export const COLUMNS: readonly Column[] = [...FIXED, REV, ...SETTLED];

/** Times are whole milliseconds; a fraction marks one that was read before the server's clock was known. */
export function textOf(type: Type, value: Value): SqlText {
  if (typeof value === "string" || value === null) return value;
  if (typeof value === "boolean") return value ? "t" : "f";
  return String(type === "double precision" ? value : Math.floor(value));
}

/** Every column as text under a name that no query builder's plugin rewrites. */
export function selectList(alias: string): string {
  return COLUMNS.map(({ name, type }, i) => {
    if (type === "bytea") return `encode(${alias}.${name}, 'hex') AS c${i}`;
    return type === "text" ? `${alias}.${name} AS c${i}` : `${alias}.${name}::text AS c${i}`;
  }).join(", ");
}

/**
 * What the sweep goes by: no row expires sooner than this after its creation. It is the action's keep, and so does not
 * change when the record is settled; a record whose own times say less is held to them.
 */
export function keepClass({ createdAt, expiresAt, keepMs }: LedgerRecord): number {
  if (expiresAt === null) return keepMs ?? FOREVER;
  return keepMs !== null && expiresAt >= createdAt + keepMs ? keepMs : Math.max(0, expiresAt - createdAt);
}

/** Why somebody may look for the row: queued or waiting for its next call, unknown, failed, held for long. */
function attentionKind({ state, queued, lease, createdAt }: LedgerRecord, now: number): string | null {
  if (state === "pending") return queued ? "queued" : "waiting";
  if (state === "unknown" || state === "failed") return state;
  if (lease === null) return null;
  return (queued && state === "claimed") || createdAt < now - YOUNG_MS ? LEASED : null;
}

/** The kinds that hold all records of a state; null: the state has none. */
export function attentionKinds(state: State): readonly string[] | null {
  if (state === "pending") return ["queued", "waiting"];
  return state === "unknown" || state === "failed" ? [state] : null;
}

const REST = plainLayout("version", "doubted", "terms", "history");

/**
 * What no claim changes: a fingerprint, and behind it what does not hold its default value. A list, not an object: the
 * names would be half of its bytes, in every row and every log record. Where the digest of a lone field is all there is to
 * write, it is just that.
 */
function docOf(record: LedgerRecord): string {
  const { keepMs, fingerprint } = record;
  const { guarded, free, fields } = fingerprint;
  const isUsualKeep = keepClass(record) === (keepMs ?? FOREVER);
  if (isUsualKeep && isPlain(record, REST)) {
    const lone = loneDigest(fingerprint);
    return lone !== undefined && PLAIN.test(lone) ? lone : JSON.stringify([guarded, free, fields]);
  }
  const rest = packed(record, REST);
  return JSON.stringify([guarded, free, fields, isUsualKeep ? rest : { ...rest, keepMs }]);
}

// Text that PostgreSQL takes as it is: no control characters, and nothing that UTF-8 does not know.
const PLAIN = /^[ -~]*$/;

export function decodeDoc(text: string): { readonly fingerprint: Fingerprint; readonly rest: Doc } {
  // No digest begins so.
  if (!text.startsWith("[")) return { fingerprint: fingerprintOf(text, null, undefined), rest: {} };
  const [guarded, free, fields, rest = {}] = JSON.parse(text);
  if (!isObject(rest)) throw new TypeError("its doc is not an object");
  return { fingerprint: { guarded, free, fields }, rest };
}

const FATE = plainLayout("dueAt", "doubtSince", "doubtMark", "why", "final", "error");

/**
 * What every claim clears: SQL hands out due work by setting it to null. A plain confirm has none either, since it
 * settles at the moment it was written.
 */
function fateOf(record: LedgerRecord): string | null {
  const { settledAt } = record;
  const isUsual = settledAt === usualSettledAt(record.state, record.updatedAt);
  if (isUsual && isPlain(record, FATE)) return null;
  return JSON.stringify(isUsual ? packed(record, FATE) : { ...packed(record, FATE), settledAt });
}

function usualSettledAt(state: State, updatedAt: number): number | null {
  return state === "confirmed" || state === "failed" ? updatedAt : null;
}

/** What goes wrong in reading a row is somebody else's doing. */
export function decodeRow(row: Row, where: string): Stored {
  try {
    const stored = decode(row);
    requireSound(stored);
    return stored;
  } catch (cause) {
    const what = "its row cannot be read: something other than nevertwice wrote to it";
    throw damagedRecord({ key: keyFromHex(row.c0 as string), where, what, cause });
  }
}

const AT = new Map(COLUMNS.map(({ name }, i) => [name, `c${i}`]));

function textAt(row: Row, name: string): SqlText {
  return row[AT.get(name) as string] as SqlText;
}

function numberAt(row: Row, name: string): number | null {
  const text = textAt(row, name);
  return text === null ? null : Number(text);
}

/** Where a row stands in a list, also when the rest of it cannot be read. */
export function positionOf(row: Row): { readonly createdAt: number; readonly key: string } {
  return { createdAt: numberAt(row, "created_at") as number, key: keyFromHex(textAt(row, "key") as string) };
}

/** Since when it has wanted attention; of a row that a lease has just taken: since when it was due. */
export function attentionSince(row: Row): number {
  return numberAt(row, "attention_at") ?? 0;
}

function decode(row: Row): Stored {
  const text = (name: string) => textAt(row, name);
  const number = (name: string) => numberAt(row, name);
  const { fingerprint, rest } = decodeDoc(text("doc") as string);
  const fate: unknown = JSON.parse(text("fate") ?? "{}");
  if (!isObject(fate)) throw new TypeError("its fate is not an object");
  const state = text("state") as State;
  const updatedAt = number("updated_at") as number;
  const firstSentAt = number("first_sent_at");
  const until = number("lease_until");
  const keepMs = rest.keepMs === undefined ? keepOf(number("keep_ms") as number) : rest.keepMs;
  const settledAt = fate.settledAt === undefined ? usualSettledAt(state, updatedAt) : fate.settledAt;
  const record = completed({
    ...unpacked(rest, REST),
    ...unpacked(fate, FATE),
    key: keyFromHex(text("key") as string),
    tenant: text("tenant") as string,
    action: text("action") as string,
    scope: text("scope"),
    agent: text("agent"),
    state,
    attempt: number("attempt") as number,
    fence: number("fence") as number,
    tries: number("tries") as number,
    holder: text("holder"),
    lease: until === null ? null : { until, epoch: text("lease_epoch") ?? "" },
    queued: text("queued") === "true",
    createdAt: number("created_at") as number,
    updatedAt,
    firstSentAt,
    lastSentAt: number("last_sent_at"),
    firstSentMark: decodeMark(text("sent_mark"), firstSentAt),
    settledAt: settledAt as number | null,
    expiresAt: number("expires_at"),
    keepMs: keepMs as number | null,
    fingerprint,
    input: decodePayload(text("input")),
    draft: decodePayload(text("draft")),
    result: decodePayload(text("result")),
    providerId: text("provider_id"),
  });
  return { record, version: number("rev") as number };
}

function keepOf(column: number): number | null {
  return column === FOREVER ? null : column;
}

function encodeMark(mark: SteadyMark | null, at: number | null): string | null {
  if (mark === null) return null;
  return mark.at === at && mark.epoch === "" ? SAME_MARK : JSON.stringify([mark.at, mark.epoch]);
}

function decodeMark(text: string | null, at: number | null): SteadyMark | null {
  if (text === null) return null;
  if (text === SAME_MARK) return { at: at as number, epoch: "" };
  const [markAt, epoch] = JSON.parse(text) as [number, string];
  return { at: markAt, epoch };
}
