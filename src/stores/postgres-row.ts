/**
 * A record as a row and back. Everything travels as text, both ways, and is cast in SQL: pools come with type parsers
 * of their own, query builders rename columns, and neither must change what a record says.
 */
import { NevertwiceError } from "../core/errors.ts";
import { attentionAt, type LedgerRecord, type State, type SteadyMark } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { decodePayload, encodePayload } from "./payload-text.ts";
import { keyFromHex } from "./postgres-key.ts";

export type SqlText = string | null;
/** As a query returns it: columns are c0, c1, … in the order of COLUMNS. */
export type Row = Readonly<Record<string, SqlText>>;

interface Column {
  readonly name: string;
  readonly type: "bytea" | "text" | "bigint" | "integer" | "boolean" | "double precision";
}

/** What a plain confirm leaves as it is. */
export const FIXED = [
  { name: "key", type: "bytea" },
  { name: "tenant", type: "text" },
  { name: "action", type: "text" },
  { name: "scope", type: "text" },
  { name: "created_at", type: "bigint" },
  { name: "keep_ms", type: "bigint" },
  { name: "queued", type: "boolean" },
  { name: "doc", type: "text" },
  { name: "input", type: "text" },
  { name: "draft", type: "text" },
] as const satisfies readonly Column[];

/** What a write may change. */
export const MOVING = [
  { name: "rev", type: "bigint" },
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
] as const satisfies readonly Column[];

export const COLUMNS: readonly Column[] = [...FIXED, ...MOVING];

/** Every column as text under a name that no query builder's plugin rewrites. */
export function selectList(alias: string): string {
  return COLUMNS.map(({ name, type }, i) => {
    if (type === "bytea") return `encode(${alias}.${name}, 'hex') AS c${i}`;
    return type === "text" ? `${alias}.${name} AS c${i}` : `${alias}.${name}::text AS c${i}`;
  }).join(", ");
}

// A claim this old is in the index of what wants attention; a younger one is found by its creation (postgres-groups.ts),
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

const whole = rememberingLast((value) => String(Math.floor(value)));
const untilText = rememberingLast(String);

export function fixedValues(record: LedgerRecord, hex: string): SqlText[] {
  return [
    hex,
    record.tenant,
    record.action,
    record.scope,
    whole(record.createdAt),
    whole(keepClass(record)),
    record.queued ? "t" : "f",
    docOf(record),
    encodePayload(record.input),
    encodePayload(record.draft),
  ];
}

type MovingName = Exclude<(typeof MOVING)[number]["name"], "rev">;

/** The text of each column of MOVING. One at a time: a settle changes a few of them, and makes the text of no other. */
const MOVING_TEXTS: { readonly [Name in MovingName]: (record: LedgerRecord, now: number) => SqlText } = {
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
};

/** Columns whose text costs more than a look at what it is made of. True where the texts may differ. */
const MAY_DIFFER: { readonly [Name in MovingName]?: (before: LedgerRecord, after: LedgerRecord) => boolean } = {
  attempt: (before, after) => before.attempt !== after.attempt,
  fence: (before, after) => before.fence !== after.fence,
  tries: (before, after) => before.tries !== after.tries,
  lease_until: (before, after) => before.lease?.until !== after.lease?.until,
  updated_at: (before, after) => before.updatedAt !== after.updatedAt,
  first_sent_at: (before, after) => before.firstSentAt !== after.firstSentAt,
  last_sent_at: (before, after) => before.lastSentAt !== after.lastSentAt,
  expires_at: (before, after) => before.expiresAt !== after.expiresAt,
};

/** A column that a settle may change: its text, and whether it has to be written to make a row of `before` one of `after`. */
interface SettledColumn extends Column {
  readonly name: MovingName;
  text(record: LedgerRecord, now: number): SqlText;
  differs(before: LedgerRecord, after: LedgerRecord, now: number): boolean;
}

/**
 * MOVING but for the revision, which is counted in SQL. A list of functions: they run for every row, and to look each up
 * by its column's name cost more than to call it.
 */
export const SETTLED: readonly SettledColumn[] = MOVING.slice(1).map(({ name, type }) => {
  const of = name as MovingName;
  const text = MOVING_TEXTS[of];
  const differs: SettledColumn["differs"] =
    MAY_DIFFER[of] ?? ((before, after, now) => text(before, now) !== text(after, now));
  return { name: of, type, text, differs };
});

export function movingValues(record: LedgerRecord, rev: number, now: number): SqlText[] {
  const values: SqlText[] = [String(rev)];
  for (const { text } of SETTLED) values.push(text(record, now));
  return values;
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

interface Rest extends Pick<LedgerRecord, "version" | "doubted" | "history" | "keepMs" | "terms"> {}

/**
 * What no claim changes: a fingerprint, and behind it what differs from the usual. A list, not an object: the names
 * would be half of its bytes, in every row and every log record.
 */
function docOf(record: LedgerRecord): string {
  const { version, doubted, history, keepMs, terms } = record;
  const { guarded, free, fields } = record.fingerprint;
  let rest = "";
  if (version !== 1) rest += `,"version":${version}`;
  if (doubted) rest += `,"doubted":true`;
  if (terms !== null) rest += `,"terms":${JSON.stringify(terms)}`;
  if (keepClass(record) !== (keepMs ?? FOREVER)) rest += `,"keepMs":${keepMs}`;
  if (history.length > 0) rest += `,"history":${JSON.stringify(history)}`;
  const print = `${JSON.stringify(guarded)},${JSON.stringify(free)},${JSON.stringify(fields)}`;
  return rest === "" ? `[${print}]` : `[${print},{${rest.slice(1)}}]`;
}

type Doc = [guarded: string, free: string | null, fields: Record<string, string>, rest?: Partial<Rest>];

export function decodeDoc(text: string): Required<Doc> {
  const [guarded, free, fields, rest = {}] = JSON.parse(text) as Doc;
  return [guarded, free, fields, rest];
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
  return readable(where, () => decode(row));
}

/** What goes wrong in reading rows is somebody else's doing. */
export function readable<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `a record in ${where} cannot be read: something other than nevertwice wrote to it. Nothing was run. Restore the row from a backup.`,
      { cause: error },
    );
  }
}

const AT = Object.fromEntries(COLUMNS.map(({ name }, i) => [name, `c${i}`])) as Record<
  (typeof FIXED)[number]["name"] | (typeof MOVING)[number]["name"],
  string
>;

function decode(row: Row): Stored {
  const text = (name: keyof typeof AT) => row[AT[name]] as SqlText;
  const number = (name: keyof typeof AT) => Number(text(name));
  const numberOrNull = (name: keyof typeof AT) => (text(name) === null ? null : number(name));
  const [guarded, free, fields, doc] = decodeDoc(text("doc") as string);
  const fate = JSON.parse(text("fate") ?? "{}") as Partial<Fate>;
  const state = text("state") as State;
  const updatedAt = number("updated_at");
  const firstSentAt = numberOrNull("first_sent_at");
  const record: LedgerRecord = {
    key: keyFromHex(text("key") as string),
    tenant: text("tenant") as string,
    action: text("action") as string,
    version: doc.version ?? 1,
    scope: text("scope"),
    state,
    attempt: number("attempt"),
    fence: number("fence"),
    tries: number("tries"),
    holder: text("holder"),
    lease: text("lease_until") === null ? null : { until: number("lease_until"), epoch: text("lease_epoch") ?? "" },
    queued: text("queued") === "true",
    terms: doc.terms ?? null,
    createdAt: number("created_at"),
    updatedAt,
    dueAt: fate.dueAt ?? null,
    firstSentAt,
    lastSentAt: numberOrNull("last_sent_at"),
    firstSentMark: decodeMark(text("sent_mark"), firstSentAt),
    doubted: doc.doubted ?? false,
    doubtSince: fate.doubtSince ?? null,
    doubtMark: fate.doubtMark ?? null,
    why: fate.why ?? null,
    settledAt: fate.settledAt === undefined ? usualSettledAt(state, updatedAt) : fate.settledAt,
    expiresAt: numberOrNull("expires_at"),
    keepMs: doc.keepMs === undefined ? keepOf(number("keep_ms")) : doc.keepMs,
    final: fate.final ?? false,
    fingerprint: { guarded, free, fields },
    input: decodePayload(text("input")),
    draft: decodePayload(text("draft")),
    result: decodePayload(text("result")),
    error: fate.error ?? null,
    history: doc.history ?? [],
  };
  return { record, version: number("rev") };
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

/** Times are whole milliseconds; a fraction marks one that was read before the server's clock was known. */
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
