/**
 * A record as stores keep it. A store has a layout of its own: which fields are columns, which are members of a document,
 * and under which names. What every layout shares is here: the fields, the values that are not written, and what a record
 * that was read must look like.
 */
import { isLone, loneFingerprint } from "../../core/key/fingerprint.ts";
import { type Fingerprint, type LedgerRecord, STATES } from "../../core/record.ts";

/** What a field holds where nothing is written for it. Most fields do, most of the time. */
const DEFAULTS = {
  tenant: "",
  version: 1,
  scope: null,
  agent: null,
  attempt: 1,
  fence: 1,
  tries: 1,
  holder: null,
  lease: null,
  queued: false,
  terms: null,
  dueAt: null,
  firstSentAt: null,
  firstSentMark: null,
  doubted: false,
  doubtSince: null,
  doubtMark: null,
  why: null,
  settledAt: null,
  expiresAt: null,
  keepMs: null,
  final: false,
  input: null,
  draft: null,
  result: null,
  providerId: null,
  error: null,
  history: [] as LedgerRecord["history"],
} as const;

type Written = "key" | "action" | "state" | "createdAt" | "fingerprint";
/** What was read of a record: at least the fields that are always written. */
export type Known = Pick<LedgerRecord, Written> & Partial<LedgerRecord>;

/** The fields of a document and their names there, in the order in which they are written. */
export type Layout = readonly {
  readonly field: keyof LedgerRecord;
  readonly name: string;
  /** What is not written. */
  readonly omitted: unknown;
  /** The same where it depends on other fields of the record. */
  readonly derived: ((record: LedgerRecord) => unknown) | undefined;
}[];

const DERIVED: { readonly [Field in keyof LedgerRecord]?: (record: LedgerRecord) => unknown } = {
  updatedAt: ({ settledAt, createdAt }) => settledAt ?? createdAt,
  lastSentAt: ({ firstSentAt }) => firstSentAt,
  history: ({ history }) => (history.length === 0 ? history : null),
};

export function layout(names: Partial<Record<keyof LedgerRecord, string>>): Layout {
  return (Object.entries(names) as [keyof LedgerRecord, string][]).map(([field, name]) => {
    const derived = DERIVED[field];
    return { field, name, omitted: derived ? undefined : DEFAULTS[field as keyof typeof DEFAULTS], derived };
  });
}

/** Under their own names. */
export function plainLayout(...fields: readonly (keyof LedgerRecord)[]): Layout {
  return layout(Object.fromEntries(fields.map((field) => [field, field])));
}

export type Doc = Record<string, unknown>;

/** The fields that do not hold their default value. */
export function packed(record: LedgerRecord, fields: Layout): Doc {
  const doc: Doc = {};
  for (const one of fields) if (!isDefault(record, one)) doc[one.name] = record[one.field];
  return doc;
}

/** Whether nothing of it would be written. */
export function isPlain(record: LedgerRecord, fields: Layout): boolean {
  for (const one of fields) if (!isDefault(record, one)) return false;
  return true;
}

function isDefault(record: LedgerRecord, { field, omitted, derived }: Layout[number]): boolean {
  const value = record[field];
  return value === omitted || (derived !== undefined && value === derived(record));
}

export function unpacked(doc: Doc, fields: Layout): Partial<LedgerRecord> {
  const known: Doc = {};
  for (const { field, name } of fields) if (doc[name] !== undefined) known[field] = doc[name];
  return known;
}

/** The whole record: what was not written holds its default value. */
export function completed(known: Known): LedgerRecord {
  const updatedAt = known.settledAt ?? known.createdAt;
  return { ...DEFAULTS, updatedAt, lastSentAt: known.firstSentAt ?? null, ...known };
}

/**
 * Throws where a record, or the revision of its row, is one that no release writes: for stores without a checksum, where
 * whoever may write to the table may change a value.
 */
export function requireSound({ record, version }: { readonly record: LedgerRecord; readonly version: number }): void {
  const { state, attempt, fence, tries, lease, fingerprint, history } = record;
  if (!STATES.includes(state)) throw new TypeError(`its state is ${JSON.stringify(state)}`);
  for (const [name, count] of Object.entries({ revision: version, attempt, fence, tries, version: record.version }))
    if (!Number.isSafeInteger(count) || count < 0) throw new TypeError(`its ${name} is ${String(count)}`);
  if (lease !== null && !Number.isFinite(lease.until)) throw new TypeError(`its lease ends at ${String(lease.until)}`);
  const { guarded, free, fields } = fingerprint;
  if (typeof guarded !== "string" || (free !== null && typeof free !== "string") || !isObject(fields))
    throw new TypeError("its fingerprint cannot be read");
  if (!Array.isArray(history)) throw new TypeError("its history is not a list");
}

export function isObject(value: unknown): value is Doc {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Of an input of one field the guarded digest says it all: then the fields are not written. Undefined: they are. */
export function loneDigest(fingerprint: Fingerprint): string | undefined {
  return isLone(fingerprint) ? fingerprint.guarded : undefined;
}

export function fingerprintOf(
  guarded: string,
  free: string | null | undefined,
  fields: Readonly<Record<string, string>> | undefined,
): Fingerprint {
  return fields === undefined ? loneFingerprint(guarded) : { guarded, free: free ?? null, fields };
}
