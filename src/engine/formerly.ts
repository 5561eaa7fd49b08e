/** Finds the one record of an intent that may have several keys, and makes the others aliases of it (core/formerly.ts). */

import { otherInputMeets } from "../core/conflict.ts";
import { NevertwiceError } from "../core/errors.ts";
import { canCompare, differing } from "../core/key/fingerprint.ts";
import {
  aliasExpiry,
  aliasRecord,
  aliasTarget,
  governing,
  isOnlyQueued,
  mayBeReplaced,
  type NamedKey,
  type Place,
} from "../core/key/formerly.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Put, PutResult, Stored, TransactionView } from "../core/store.ts";
import { type Call, hasFormer } from "./call.ts";
import type { Ledger } from "./ledger.ts";
import { rekeyed } from "./make-call.ts";

/** The ledger, or the caller's transaction. */
export interface AliasSwaps {
  read(keys: readonly string[]): Promise<readonly (Stored | null)[]>;
  write(put: Put): Promise<PutResult | undefined>;
  now(): Instant;
}

export interface Located {
  /** Under the key of the record that governs. */
  readonly call: Call;
  readonly stored: Stored | null;
}

// An alias of an alias comes about where two definitions were changed one after the other.
const MOST_HOPS = 16;
const MOST_ROUNDS = 32;

export function aliasSwapsOf(ledger: Ledger): AliasSwaps {
  return {
    read: (keys) => Promise.all(keys.map((key) => ledger.read(key))),
    write: (put) => ledger.put(put),
    now: () => ledger.instant(),
  };
}

export function aliasSwapsWithin(ledger: Ledger, view: TransactionView): AliasSwaps {
  return {
    read: (keys) => view.read(keys),
    write: async (put) => (await view.write([put]))[0],
    now: () => ledger.instant(),
  };
}

/** What is there, as it is: for `status` and everything that only looks. */
export async function peek(swaps: AliasSwaps, call: Call): Promise<Located> {
  const best = bestOf(await placesOf(swaps, keysOf(call)), swaps.now());
  return { call: rekeyed(call, best, best.record), stored: best.stored };
}

interface Holding {
  /** The key of a record that the caller has leased: the same intent in the queue under another key is not run beside it. */
  readonly holding?: string | null;
}

/**
 * The record that governs the call, with every other key of the intent pointing to it: from then on, whoever claims, claims
 * that record. The new key first, since it is the one that two inputs with different former keys may share.
 */
export async function locate(swaps: AliasSwaps, call: Call, { holding = null }: Holding = {}): Promise<Located> {
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const places = await placesOf(swaps, keysOf(call));
    const best = bestOf(places, swaps.now());
    const located = { call: rekeyed(call, best, best.record), stored: best.stored };
    // A conflict is reported and leaves nothing behind: the key may be told apart by the next definition.
    if (otherFields(located, swaps.now()).length > 0 || (await pointAll(swaps, call, places, best, holding)))
      return located;
  }
  throw new NevertwiceError(
    "STORE_UNAVAILABLE",
    `${call.definition.name}: the records under its keys kept changing under this call. Nothing was run; call again.`,
    { key: call.key },
  );
}

/** The fields that make the record another input's; none: it is this one's, or may become it. */
export function otherFields({ call, stored }: Located, at: Instant): readonly string[] {
  if (stored === null || otherInputMeets(stored.record, at) === "new-round") return [];
  const { fingerprint } = stored.record;
  return canCompare(fingerprint, call.print) ? differing(fingerprint, call.print, call.definition.free).guarded : [];
}

/** An alias that a call met without having named a former key. */
export async function follow(swaps: Pick<AliasSwaps, "read" | "now">, call: Call, target: NamedKey): Promise<Located> {
  const place = await endOf(swaps, target);
  return { call: rekeyed(call, place, place.record), stored: place.stored };
}

/** Null: where it was. An alias is followed; and what has former keys is looked for under all of them before each turn. */
export function whereItIs(ledger: Ledger, call: Call, stored: Stored | null, turn: number): Promise<Located> | null {
  if (turn > 0 && hasFormer(call)) return locate(aliasSwapsOf(ledger), call);
  const target = stored === null ? null : aliasTarget(stored.record, ledger.instant().now);
  return target === null ? null : follow(aliasSwapsOf(ledger), call, target);
}

/** Where the record of a call would be if there was none yet: for whoever cannot look. */
export function asFirstRecorded(call: Call): Call {
  const oldest = call.former?.at(-1);
  return oldest === undefined || call.calledAs !== undefined ? call : rekeyed(call, oldest, null);
}

/** The record under a key, or the one that its alias stands for. */
export async function followKey(swaps: Pick<AliasSwaps, "read" | "now">, key: string): Promise<Stored | null> {
  return (await endOf(swaps, { key, action: "" })).stored;
}

export function keysOf({ calledAs, key, definition, former = [] }: Call): readonly NamedKey[] {
  return [{ key: calledAs ?? key, action: definition.name }, ...former];
}

interface FoundPlace extends Place {
  /** What is there under the key that it was looked for by. */
  readonly first: Stored | null;
  readonly stored: Stored | null;
}

async function placesOf(swaps: AliasSwaps, keys: readonly NamedKey[]): Promise<readonly FoundPlace[]> {
  const found = await swaps.read(keys.map(({ key }) => key));
  const places: FoundPlace[] = [];
  // One after the other: the client of a caller's transaction takes one statement at a time.
  for (const [index, key] of keys.entries()) places.push(await endOf(swaps, key, found[index] ?? null));
  return places;
}

async function endOf(
  swaps: Pick<AliasSwaps, "read" | "now">,
  from: NamedKey,
  given?: Stored | null,
): Promise<FoundPlace> {
  const first = given === undefined ? ((await swaps.read([from.key]))[0] ?? null) : given;
  let { key, action } = from;
  let stored = first;
  for (let hop = 0; hop < MOST_HOPS; hop += 1) {
    const target = aliasTarget(stored?.record, swaps.now().now);
    if (target === null)
      return { first, key, action, stored, record: stored?.record ?? null, aliased: key !== from.key };
    ({ key, action } = target);
    stored = (await swaps.read([key]))[0] ?? null;
  }
  throw new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the keys of this intent are aliases of each other, and no record is found behind them. Nothing was run. See: nevertwice show ${from.key}`,
    { key: from.key },
  );
}

function bestOf(places: readonly FoundPlace[], at: Instant): FoundPlace {
  return governing(places, at) as FoundPlace;
}

/** False: somebody else was faster, and everything is to be read again. */
async function pointAll(
  swaps: AliasSwaps,
  call: Call,
  places: readonly FoundPlace[],
  best: FoundPlace,
  holding: string | null,
): Promise<boolean> {
  const at = swaps.now();
  const done = new Set([best.key]);
  const isFree = ({ record }: FoundPlace) =>
    mayBeReplaced(record, at) || (best.key === holding && isOnlyQueued(record, at));
  for (const place of places) {
    // What governs is confirmed by now: the alias is over when the record is.
    if (place.aliased && place.key === best.key && !(await endAlias(swaps, place))) return false;
    if (done.has(place.key) || !isFree(place)) continue;
    done.add(place.key);
    const { tenant, scope, version } = call;
    const { key, action } = place;
    const record = settledAs(
      place.record,
      aliasRecord(place.record, { key, action, tenant, scope, version }, best, at),
    );
    const result = await swaps.write({ record, expected: place.stored?.version ?? null });
    if (result?.ok !== true) return false;
  }
  return true;
}

/** What was queued stays in its place of an order: those behind it go on. */
function settledAs(before: LedgerRecord | null, alias: LedgerRecord): LedgerRecord {
  return before?.queued ? { ...alias, queued: true, terms: before.terms } : alias;
}

/** Makes the record that the caller has leased an alias of the one that governs. False: it is not the caller's any more. */
export async function yieldTo(swaps: AliasSwaps, leased: Stored, of: Located): Promise<boolean> {
  const { key, action, tenant, scope, version } = leased.record;
  const governs = { key: of.call.key, action: of.stored?.record.action ?? action, record: of.stored?.record ?? null };
  const alias = aliasRecord(leased.record, { key, action, tenant, scope, version }, governs, swaps.now());
  const result = await swaps.write({ record: settledAs(leased.record, alias), expected: leased.version });
  return result?.ok === true;
}

async function endAlias(swaps: AliasSwaps, { first, key, record }: FoundPlace): Promise<boolean> {
  const expiresAt = aliasExpiry(record);
  // Only an alias that names the record itself: one on the way there may serve others.
  if (first === null || expiresAt === null || first.record.expiresAt === expiresAt) return true;
  if (aliasTarget(first.record, swaps.now().now)?.key !== key) return true;
  const result = await swaps.write({ record: { ...first.record, expiresAt }, expected: first.version });
  return result?.ok === true;
}
