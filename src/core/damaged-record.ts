/**
 * A record that is there and cannot be read. It is never taken for absent, and it concerns its own key alone: whoever
 * works through many records passes over it, reports it and goes on.
 */
import { configError, isNevertwiceError, NevertwiceError } from "./errors.ts";

/** What a store says of a record that it cannot read. */
export interface DamagedRecord {
  readonly key: string;
  /** What is wrong with it, and what to do. */
  readonly message: string;
}

export interface DamageDetails {
  readonly key: string;
  /** The ledger it is in. */
  readonly where: string;
  readonly what: string;
  readonly cause?: unknown;
}

// By registered symbol, not by class: two copies of the package in one process must understand each other.
const DAMAGED = Symbol.for("nevertwice.damagedRecord");

/** Its code is that of a store which cannot answer, because for this key it cannot; the mark says that others are fine. */
export function damagedRecord({ key, where, what, cause }: DamageDetails): NevertwiceError {
  return markDamaged(
    new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the record ${key} in the ledger ${where} is damaged: ${what}. Nothing was run for it; other records are not affected. Restore it from a backup. To give its guard up instead, set it aside by name: nevertwice doctor --quarantine ${key}`,
      { key, cause },
    ),
  );
}

export function markDamaged(error: NevertwiceError): NevertwiceError {
  return Object.defineProperty(error, DAMAGED, { value: true, enumerable: false });
}

export function isDamagedRecord(error: unknown): error is NevertwiceError {
  return isNevertwiceError(error) && (error as { [DAMAGED]?: unknown })[DAMAGED] === true;
}

/** Not damaged, but this release cannot read it: for whoever works through many records that is the same. */
export function newerRecord(key: string, message: string): NevertwiceError {
  return markDamaged(new NevertwiceError("CONFIG", message, { key }));
}

const IN_USE = Symbol.for("nevertwice.connectionInUse");

/**
 * The store works, but the caller's own open transaction occupies the connection it was given. The store has waited for
 * it already, and only the caller can end it: to repeat the request, or to run without the ledger, would not be right.
 */
export function markConnectionInUse(error: NevertwiceError): NevertwiceError {
  return Object.defineProperty(error, IN_USE, { value: true, enumerable: false });
}

/** The request as a whole was not carried out: nothing is said about any one record. */
export function isOfAllRecords(error: unknown): boolean {
  return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE" && !isDamagedRecord(error);
}

/** The store as a whole did not answer: nothing can be said about any record. */
export function isStoreDown(error: unknown): boolean {
  return isOfAllRecords(error) && (error as { [IN_USE]?: unknown })[IN_USE] !== true;
}

export function describeDamage(error: NevertwiceError): DamagedRecord {
  return { key: error.key ?? "", message: error.message };
}

/** Reads what can be read; the errors of damaged records go to `report`. What is not a damaged record's error is thrown. */
export function decodeIntact<R, T>(
  rows: Iterable<R>,
  decode: (row: R) => T,
  report: (damage: DamagedRecord) => void,
): T[] {
  const intact: T[] = [];
  for (const row of rows) {
    const decoded = decodedOrError(() => decode(row));
    if (isDamagedRecord(decoded)) report(describeDamage(decoded));
    else intact.push(decoded);
  }
  return intact;
}

/** The value, or the error of the damaged record that it would have come from. */
export function decodedOrError<T>(decode: () => T): T | NevertwiceError {
  try {
    return decode();
  } catch (error) {
    if (isDamagedRecord(error)) return error;
    throw error;
  }
}

/** Before a record is set aside: one that can be read guards its key, and one of a later release will be read by that. */
export function requireDamaged(key: string, decode: () => unknown): void {
  const decoded = decodedOrError(decode);
  if (isDamagedRecord(decoded) && decoded.code === "STORE_UNAVAILABLE") return;
  const why = isDamagedRecord(decoded) ? "is of a later release, which can read it" : "can be read, and guards its key";
  throw configError(`quarantine: the record ${key} ${why}. Only a damaged one is set aside.`);
}

/**
 * Asks a store about many keys at once although one of them may be damaged: the damaged one is left out and the others are
 * asked for again. One answer per item, in order; an error stands for a damaged record.
 */
export async function askAround<Item, Answer>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  ask: (items: readonly Item[]) => Promise<readonly Answer[]>,
): Promise<(Answer | NevertwiceError)[]> {
  const damaged = new Map<string, NevertwiceError>();
  for (;;) {
    const sound = items.filter((item) => !damaged.has(keyOf(item)));
    try {
      const answers = sound.length === 0 ? [] : await ask(sound);
      const byItem = new Map(sound.map((item, i) => [item, answers[i] as Answer]));
      return items.map((item) => damaged.get(keyOf(item)) ?? (byItem.get(item) as Answer));
    } catch (error) {
      const key = isDamagedRecord(error) ? error.key : undefined;
      if (key === undefined || damaged.has(key) || !sound.some((item) => keyOf(item) === key)) throw error;
      damaged.set(key, error as NevertwiceError);
    }
  }
}
