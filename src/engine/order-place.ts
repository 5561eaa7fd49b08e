/**
 * Places in an order. Only compare-and-swap is needed, and every step may be repeated:
 *
 * 1. the record is inserted without a place: it exists, and nobody may begin it
 * 2. the order's note is swapped so that it names the record as the last one, and its place
 * 3. the place is written into the record
 *
 * Before anybody moves the note on, the last one gets its place (step 3 on its behalf). So a record without a place is in
 * its order exactly while the note names it. Whoever needs the place of a record, because its enqueuer died or is slow,
 * takes the same steps.
 *
 * The order of the reads matters. To append a record, it must be seen without a place after the note was read: the swap
 * of that note then proves that it was not in the order. To take a place from the note, the note must be read after the
 * record was seen without one: an older note may name a place that others have passed since.
 */
import { NevertwiceError } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import { writeNote } from "../core/note.ts";
import { appended, isSettled, isUnplaced, type OrderNote, readOrder, withoutPlace, withPlace } from "../core/order.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Store, Stored } from "../core/store.ts";

/** The note outlives the last append, and the time the appended record is due, by at least this. */
const LEAST_KEEP_MS = 30 * 86_400_000;
const MAX_SWAPS = 256;
const NOTE_ACTION = "nevertwice.line";

/** The ledger, or the caller's transaction. */
export interface Swaps extends Pick<Store, "read" | "write"> {
  now(): Instant;
}

export function lineKey(
  intent: { readonly tenant: string; readonly action: string },
  orderKey: string,
  secret: string | Uint8Array | undefined,
): string {
  const { tenant, action } = intent;
  return deriveKey({ tenant, action: NOTE_ACTION, version: 1, scope: null, parts: [action, orderKey], secret });
}

/** A note that this process swapped last, with its last record placed: the next append need not read either. */
export type KnownNote = Stored;

/**
 * Inserts a record and appends it to its order. The note is read before the insert, so that a new record is known to be
 * in no place. Answers with the note as this call left it, or null where others have been at it.
 */
export async function insertInLine(
  swaps: Swaps,
  line: string,
  insert: () => Promise<Stored | null>,
  known: KnownNote | null = null,
): Promise<KnownNote | null> {
  const note = known ?? (await readOne(swaps, line));
  const mine = await insert();
  if (mine === null || !isUnplaced(mine.record)) return null;
  const { key, terms } = mine.record;
  if (terms?.line === line && readOrder(note?.record ?? null)?.last !== key && !isSettled(mine.record)) {
    const done = await append(swaps, note, mine, known !== null);
    if (done.note !== null && done.mine !== null && !isUnplaced(done.mine.record)) return done.note;
  }
  await place(swaps, mine);
  return null;
}

/** Sees to it that a record of an order is in its place. Answers with the record as it stands then; null: it is gone. */
export async function place(swaps: Swaps, seen: Stored): Promise<Stored | null> {
  const { key } = seen.record;
  let mine: Stored | null = seen;
  for (let swap = 0; mine !== null && isUnplaced(mine.record); swap += 1) {
    if (swap === MAX_SWAPS) throw tooBusy(key);
    const line = mine.record.terms?.line as string;
    const note = await readOne(swaps, line);
    const order = readOrder(note?.record ?? null);
    if (order?.last === key) {
      mine = await writePlace(swaps, mine, order);
      continue;
    }
    // Settled without ever having been in the order: nothing to put in order.
    if (isSettled(mine.record)) return mine;
    mine = await readOne(swaps, key);
    if (mine === null || !isUnplaced(mine.record) || mine.record.terms?.line !== line) continue;
    mine = (await append(swaps, note, mine, false)).mine;
  }
  return mine;
}

/**
 * Gives a record that waits a new place at the end of its order. Not the one that the note names: it is at the end. False: it
 * is under way, settled, gone, or was changed at the same time.
 */
export async function moveToEnd(swaps: Swaps, key: string): Promise<boolean> {
  const seen = await readOne(swaps, key);
  if (seen === null || seen.record.state !== "pending") return false;
  const record = { ...seen.record, terms: withoutPlace(seen.record.terms) };
  const [result] = await swaps.write([{ record, expected: seen.version }]);
  if (!result?.ok) return false;
  await place(swaps, { record, version: result.version });
  return true;
}

/** `mine` was seen without a place after `note` was read. The note answered is null where its swap failed. */
async function append(
  swaps: Swaps,
  note: Stored | null,
  mine: Stored,
  lastIsPlaced: boolean,
): Promise<{ readonly note: Stored | null; readonly mine: Stored | null }> {
  const { key, terms } = mine.record;
  const order = readOrder(note?.record ?? null);
  if (order !== null && !lastIsPlaced) await placeLast(swaps, order.last, terms?.line);
  const next = appended(order, key, swaps.now());
  const record = noteOf(note?.record ?? null, mine.record, JSON.stringify(next), swaps.now());
  const [result] = await swaps.write([{ record, expected: note?.version ?? null }]);
  if (!result?.ok) return { note: null, mine: await readOne(swaps, key) };
  return { note: { record, version: result.version }, mine: await writePlace(swaps, mine, next) };
}

async function placeLast(swaps: Swaps, key: string, line: string | undefined): Promise<void> {
  const last = await readOne(swaps, key);
  if (last !== null && last.record.terms?.line === line && isUnplaced(last.record)) await place(swaps, last);
}

/** Answers with the record as it is in the ledger then: with its place, or changed by somebody else. */
async function writePlace(swaps: Swaps, mine: Stored, order: OrderNote): Promise<Stored | null> {
  const record = withPlace(mine.record, order);
  const [result] = await swaps.write([{ record, expected: mine.version }]);
  return result?.ok ? { record, version: result.version } : (result?.current ?? null);
}

async function readOne(swaps: Swaps, key: string): Promise<Stored | null> {
  const [stored = null] = await swaps.read([key]);
  return stored;
}

/** The note is kept until the record may have run, and never shorter than it was to be kept before. */
function noteOf(before: LedgerRecord | null, mine: LedgerRecord, json: string, at: Instant): LedgerRecord {
  const dueInMs = Math.max(0, (mine.dueAt ?? 0) - at.now);
  const leftMs = (before?.expiresAt ?? 0) - at.now;
  const keepMs = Math.ceil(Math.max(leftMs, dueInMs + keepOf(mine)));
  const name = { key: mine.terms?.line as string, tenant: mine.tenant, action: NOTE_ACTION, keepMs };
  return writeNote(before, name, json, at);
}

function keepOf({ keepMs }: LedgerRecord): number {
  return Math.max(keepMs ?? 0, LEAST_KEEP_MS);
}

/** The order's note must not be swept while a record waits in the order: refreshed once half of its time has passed. */
export async function keepNote(swaps: Swaps, waiting: LedgerRecord): Promise<void> {
  const line = waiting.terms?.line;
  const note = line === undefined ? null : await readOne(swaps, line);
  if (note === null || note.record.result === null || !("json" in note.record.result)) return;
  const at = swaps.now();
  if ((note.record.expiresAt ?? 0) - at.now > keepOf(waiting) / 2) return;
  // Whoever swaps it at the same time has refreshed it.
  await swaps.write([{ record: noteOf(note.record, waiting, note.record.result.json, at), expected: note.version }]);
}

function tooBusy(key: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the order of its orderKey changed ${MAX_SWAPS} times under this call. Call again: the intent is queued at most once.`,
    { key },
  );
}
