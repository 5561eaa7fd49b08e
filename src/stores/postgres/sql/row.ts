/**
 * A record as a row and back. Everything travels as text, both ways, and is cast in SQL: pools come with type parsers
 * of their own, query builders rename columns, and neither must change what a record says.
 */
import { damagedRecord } from "../../../core/damaged-record.ts";
import { isLone, loneFingerprint } from "../../../core/key/fingerprint.ts";
import { attentionAt, type Fingerprint, type LedgerRecord, type State, type SteadyMark } from "../../../core/record.ts";
import type { Stored } from "../../../core/store.ts";
import { decodePayload, encodePayload } from "../../shared/payload-text.ts";
import { keyFromHex } from "./key.ts";
import { soundCount, soundDoc, soundObject, soundState, soundTime } from "./sound.ts";

export type SqlText = string | null;
/** As a query returns it: columns are c0, c1, … in the order of COLUMNS. */
export type Row = Readonly<Record<string, SqlText>>;

interface Column {
  readonly name: string;
  readonly type: "bytea" | "text" | "bigint" | "integer" | "boolean" | "double precision";
}

/** What a plain confirm leaves as it is, but for the key. */
const KEPT_COLUMNS = [
  { name: "tenant", type: "text" },
  { name: "action", type: "text" },
  { name: "scope", type: "text" },
  { name: "created_at", type: "bigint" },
  { name: "keep_ms", type: "bigint" },
  { name: "queued", type: "boolean" },
  { name: "doc", type: "text" },
  { name: "input", type: "text" },
  { name: "draft", type: "text" },
  { name: "agent", type: "text" },
] as const satisfies readonly Column[];

/** What a write may change, but for the revision. */
const SETTLED_COLUMNS = [
  { name: "state", type: "text" },
  { name: "attempt", type: "integer" },
  { name: "fence", type: "integer" },
  { name: "tries", type: "integer" },
  { name: "holder", type: "text" },
  { name: "lease_until", type: "double precision" },
  { name: "lease_epoch", type: "text" },
  { name: "updated_at", type: "bigint" },
  { name: "first_sent_at", type: "bigint" },
  { name: "last_sent_at", type: "bigint" },
  { name: "sent_mark", type: "text" },
  { name: "attention", type: "text" },
  { name: "attention_at", type: "bigint" },
  { name: "expires_at", type: "bigint" },
  { name: "fate", type: "text" },
  { name: "result", type: "text" },
  { name: "provider_id", type: "text" },
] as const satisfies readonly Column[];

export const FIXED = [{ name: "key", type: "bytea" }, ...KEPT_COLUMNS] as const satisfies readonly Column[];
export const MOVING = [{ name: "rev", type: "bigint" }, ...SETTLED_COLUMNS] as const satisfies readonly Column[];
export const COLUMNS: readonly Column[] = [...FIXED, ...MOVING];

/** Every column as text under a name that no query builder's plugin rewrites. */
export function selectList(alias: string): string {
  return COLUMNS.map(({ name, type }, i) => {
    if (type === "bytea") return `encode(${alias}.${name}, 'hex') AS c${i}`;
    return type === "text" ? `${alias}.${name} AS c${i}` : `${alias}.${name}::text AS c${i}`;
  }).join(", ");
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

/** Times are whole milliseconds; a fraction marks one that was read before the server's clock was known. */
const whole = rememberingLast((value) => String(Math.floor(value)));
const untilText = rememberingLast(String);

type RecordName = (typeof KEPT_COLUMNS | typeof SETTLED_COLUMNS)[number]["name"];

/** The text of each column, one at a time: most are the same in all rows of a batch, or in the row as it was. */
const TEXTS: { readonly [Name in RecordName]: (record: LedgerRecord, now: number) => SqlText } = {
  tenant: ({ tenant }) => tenant,
  action: ({ action }) => action,
  scope: ({ scope }) => scope,
  created_at: ({ createdAt }) => whole(createdAt),
  keep_ms: (record) => whole(keepClass(record)),
  queued: ({ queued }) => (queued ? "t" : "f"),
  doc: docOf,
  input: ({ input }) => encodePayload(input),
  draft: ({ draft }) => encodePayload(draft),
  agent: ({ agent }) => agent,
  state: ({ state }) => state,
  attempt: ({ attempt }) => String(attempt),
  fence: ({ fence }) => String(fence),
  tries: ({ tries }) => String(tries),
  holder: ({ holder }) => holder,
  lease_until: ({ lease }) => (lease === null ? null : untilText(lease.until)),
  // "" is this store's own clock; any other epoch is a lease that is over.
  lease_epoch: ({ lease }) => (lease === null || lease.epoch === "" ? null : lease.epoch),
  updated_at: ({ updatedAt }) => whole(updatedAt),
  first_sent_at: ({ firstSentAt }) => wholeOrNull(firstSentAt),
  last_sent_at: ({ lastSentAt }) => wholeOrNull(lastSentAt),
  sent_mark: ({ firstSentMark, firstSentAt }) => encodeMark(firstSentMark, firstSentAt),
  attention: attentionKind,
  attention_at: (record, now) => {
    const kind = attentionKind(record, now);
    return kind === null ? null : whole(kind === LEASED ? record.createdAt : (attentionAt(record) ?? 0));
  },
  expires_at: ({ expiresAt }) => wholeOrNull(expiresAt),
  fate: fateOf,
  result: ({ result }) => encodePayload(result),
  provider_id: ({ providerId }) => providerId,
};

/** Columns whose text costs more than a look at what it is made of. True where the texts may differ. */
const MAY_DIFFER: { readonly [Name in RecordName]?: (before: LedgerRecord, after: LedgerRecord) => boolean } = {
  created_at: (before, after) => before.createdAt !== after.createdAt,
  keep_ms: (before, after) => keepClass(before) !== keepClass(after),
  doc: (before, after) => before !== after,
  attempt: (before, after) => before.attempt !== after.attempt,
  fence: (before, after) => before.fence !== after.fence,
  tries: (before, after) => before.tries !== after.tries,
  lease_until: (before, after) => before.lease?.until !== after.lease?.until,
  updated_at: (before, after) => before.updatedAt !== after.updatedAt,
  first_sent_at: (before, after) => before.firstSentAt !== after.firstSentAt,
  last_sent_at: (before, after) => before.lastSentAt !== after.lastSentAt,
  expires_at: (before, after) => before.expiresAt !== after.expiresAt,
};

/** Times, where the column holds nothing else. */
const NUMBERS: { readonly [Name in RecordName]?: NumberOf } = {
  created_at: ({ createdAt }) => createdAt,
  lease_until: ({ lease }) => lease?.until ?? null,
  updated_at: ({ updatedAt }) => updatedAt,
  first_sent_at: ({ firstSentAt }) => firstSentAt,
  last_sent_at: ({ lastSentAt }) => lastSentAt,
  expires_at: ({ expiresAt }) => expiresAt,
};

export type NumberOf = (record: LedgerRecord) => number | null;

/** A column that a record has a text for, and whether the texts of two records may differ. */
export interface RecordColumn extends Column {
  text(record: LedgerRecord, now: number): SqlText;
  /** The same as a number, where it is one that the rows of a batch have close together. */
  readonly number: NumberOf | null;
  differs(one: LedgerRecord, other: LedgerRecord, now: number): boolean;
}

/** A list of functions: they run for every row, and to look each up by its column's name cost more than to call it. */
function recordColumns(columns: readonly (Column & { readonly name: RecordName })[]): readonly RecordColumn[] {
  return columns.map(({ name, type }) => {
    const text = TEXTS[name];
    const differs: RecordColumn["differs"] =
      MAY_DIFFER[name] ?? ((one, other, now) => text(one, now) !== text(other, now));
    return { name, type, text, number: NUMBERS[name] ?? null, differs };
  });
}

/** What a settle may change. The revision is counted in SQL. */
export const SETTLED = recordColumns(SETTLED_COLUMNS);

/** By the place of a column in COLUMNS; null where the record itself does not know. */
export const WRITTEN: readonly (RecordColumn | null)[] = [null, ...recordColumns(KEPT_COLUMNS), null, ...SETTLED];

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

interface Rest extends Pick<LedgerRecord, "version" | "doubted" | "history" | "keepMs" | "terms"> {}

/**
 * What no claim changes: a fingerprint, and behind it what differs from the usual. A list, not an object: the names
 * would be half of its bytes, in every row and every log record. Where the digest of a lone field is all there is to
 * say, it is just that.
 */
function docOf(record: LedgerRecord): string {
  const { version, doubted, history, keepMs, terms, fingerprint } = record;
  let rest = "";
  if (version !== 1) rest += `,"version":${version}`;
  if (doubted) rest += `,"doubted":true`;
  if (terms !== null) rest += `,"terms":${JSON.stringify(terms)}`;
  if (keepClass(record) !== (keepMs ?? FOREVER)) rest += `,"keepMs":${keepMs}`;
  if (history.length > 0) rest += `,"history":${JSON.stringify(history)}`;
  const { guarded, free, fields } = fingerprint;
  if (rest === "" && isLone(fingerprint) && PLAIN.test(guarded)) return guarded;
  const print = `${JSON.stringify(guarded)},${JSON.stringify(free)},${JSON.stringify(fields)}`;
  return rest === "" ? `[${print}]` : `[${print},{${rest.slice(1)}}]`;
}

// Text that PostgreSQL takes as it is: no control characters, and nothing that UTF-8 does not know.
const PLAIN = /^[ -~]*$/;

type Doc = [guarded: string, free: string | null, fields: Record<string, string>, rest?: Partial<Rest>];

export function decodeDoc(text: string): { readonly fingerprint: Fingerprint; readonly rest: Partial<Rest> } {
  // No digest begins so.
  if (!text.startsWith("[")) return { fingerprint: loneFingerprint(text), rest: {} };
  const [guarded, free, fields, rest = {}] = soundDoc<Doc>(JSON.parse(text));
  return { fingerprint: { guarded, free, fields }, rest };
}

interface Fate
  extends Pick<LedgerRecord, "dueAt" | "doubtSince" | "doubtMark" | "why" | "settledAt" | "final" | "error"> {}

/**
 * What every claim clears: SQL hands out due work by setting it to null. A plain confirm has none either, since it
 * settles at the moment it was written.
 */
function fateOf(r: LedgerRecord): string | null {
  let text = "";
  if (r.dueAt !== null) text += `,"dueAt":${r.dueAt}`;
  if (r.doubtSince !== null) text += `,"doubtSince":${r.doubtSince}`;
  if (r.doubtMark !== null) text += `,"doubtMark":${JSON.stringify(r.doubtMark)}`;
  if (r.why !== null) text += `,"why":${JSON.stringify(r.why)}`;
  if (r.settledAt !== usualSettledAt(r.state, r.updatedAt)) text += `,"settledAt":${r.settledAt}`;
  if (r.final) text += `,"final":true`;
  if (r.error !== null) text += `,"error":${JSON.stringify(r.error)}`;
  return text === "" ? null : `{${text.slice(1)}}`;
}

function usualSettledAt(state: State, updatedAt: number): number | null {
  return state === "confirmed" || state === "failed" ? updatedAt : null;
}

export function decodeRow(row: Row, where: string): Stored {
  return readable(row, where, () => decode(row));
}

/** What goes wrong in reading a row is somebody else's doing. */
export function readable<T>(row: Row, where: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    const what = "its row cannot be read: something other than nevertwice wrote to it";
    throw damagedRecord({ key: keyFromHex(row.c0 as string), where, what, cause });
  }
}

/** Where a row stands in a list, also when the rest of it cannot be read. */
export function positionOf(row: Row): { readonly createdAt: number; readonly key: string } {
  return { createdAt: Number(row[AT.created_at]), key: keyFromHex(row[AT.key] as string) };
}

const AT = Object.fromEntries(COLUMNS.map(({ name }, i) => [name, `c${i}`])) as Record<
  (typeof FIXED)[number]["name"] | (typeof MOVING)[number]["name"],
  string
>;

function decode(row: Row): Stored {
  const text = (name: keyof typeof AT) => row[AT[name]] as SqlText;
  const number = (name: keyof typeof AT) => Number(text(name));
  const count = (name: keyof typeof AT) => soundCount(number(name), name);
  const numberOrNull = (name: keyof typeof AT) => (text(name) === null ? null : number(name));
  const { fingerprint, rest } = decodeDoc(text("doc") as string);
  const fate = soundObject<Partial<Fate>>(JSON.parse(text("fate") ?? "{}"), "fate");
  const state = soundState(text("state"));
  const updatedAt = number("updated_at");
  const firstSentAt = numberOrNull("first_sent_at");
  const record: LedgerRecord = {
    key: keyFromHex(text("key") as string),
    tenant: text("tenant") as string,
    action: text("action") as string,
    version: rest.version ?? 1,
    scope: text("scope"),
    agent: text("agent"),
    state,
    attempt: count("attempt"),
    fence: count("fence"),
    tries: count("tries"),
    holder: text("holder"),
    lease:
      text("lease_until") === null
        ? null
        : { until: soundTime(number("lease_until"), "lease"), epoch: text("lease_epoch") ?? "" },
    queued: text("queued") === "true",
    terms: rest.terms ?? null,
    createdAt: number("created_at"),
    updatedAt,
    dueAt: fate.dueAt ?? null,
    firstSentAt,
    lastSentAt: numberOrNull("last_sent_at"),
    firstSentMark: decodeMark(text("sent_mark"), firstSentAt),
    doubted: rest.doubted ?? false,
    doubtSince: fate.doubtSince ?? null,
    doubtMark: fate.doubtMark ?? null,
    why: fate.why ?? null,
    settledAt: fate.settledAt === undefined ? usualSettledAt(state, updatedAt) : fate.settledAt,
    expiresAt: numberOrNull("expires_at"),
    keepMs: rest.keepMs === undefined ? keepOf(number("keep_ms")) : rest.keepMs,
    final: fate.final ?? false,
    fingerprint,
    input: decodePayload(text("input")),
    draft: decodePayload(text("draft")),
    result: decodePayload(text("result")),
    providerId: text("provider_id"),
    error: fate.error ?? null,
    history: rest.history ?? [],
  };
  return { record, version: count("rev") };
}

export function keepOf(column: number): number | null {
  return column === FOREVER ? null : column;
}

function encodeMark(mark: SteadyMark | null, at: number | null): string | null {
  if (mark === null) return null;
  return mark.at === at && mark.epoch === "" ? SAME_MARK : JSON.stringify([mark.at, mark.epoch]);
}

export function decodeMark(text: string | null, at: number | null): SteadyMark | null {
  if (text === null) return null;
  if (text === SAME_MARK) return { at: at as number, epoch: "" };
  const [markAt, epoch] = JSON.parse(text) as [number, string];
  return { at: markAt, epoch };
}

/** The rows of a batch share most of their times, and so do the columns of a row: the last text is kept. */
function rememberingLast(textOf: (value: number) => string): (value: number) => string {
  let last = Number.NaN;
  let text = "";
  return (value) => {
    if (value !== last) {
      text = textOf(value);
      last = value;
    }
    return text;
  };
}

function wholeOrNull(value: number | null): string | null {
  return value === null ? null : whole(value);
}
