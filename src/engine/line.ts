/**
 * Strict order per `orderKey`: each intent of a line names the one before it, and is not begun until that one is settled.
 * The line itself is a note in the ledger that names the last one.
 */
import { NevertwiceError } from "../core/errors.ts";
import { deriveKey } from "../core/key.ts";
import { type NoteName, readNote, writeNote } from "../core/ledger-note.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Store, Stored } from "../core/store.ts";

/** A line that lost its note while somebody waits in it would lose its order: kept longer than work lies about. */
const LEAST_KEEP_MS = 30 * 86_400_000;
const MAX_SWAPS = 256;

export type Swaps = Pick<Store, "read" | "write">;

export interface LineEntry {
  /** The intent that joins the line. */
  readonly key: string;
  /** Writes it, behind `after`; null: it was there already, and keeps its place. */
  insert(after: string | undefined): Promise<Stored | null>;
}

export function lineOf(
  intent: { readonly tenant: string; readonly action: string; readonly keepMs: number | null },
  orderKey: string,
  secret: string | Uint8Array | undefined,
): NoteName {
  const { tenant, action, keepMs } = intent;
  const name = { tenant, action: "nevertwice.line", version: 1, scope: null, parts: [action, orderKey], secret };
  return { key: deriveKey(name), tenant, action: name.action, keepMs: Math.max(keepMs ?? 0, LEAST_KEEP_MS) };
}

/** Whoever appended meanwhile is then before us; a record that a worker has taken meanwhile keeps its place. */
export async function appendToLine(swaps: Swaps, line: NoteName, entry: LineEntry, now: () => Instant): Promise<void> {
  let [note = null] = await swaps.read([line.key]);
  let mine = await entry.insert(lastOf(note, now()));
  for (let swap = 0; mine !== null; swap += 1) {
    if (swap === MAX_SWAPS) throw tooBusy(entry.key);
    const record = writeNote(note?.record ?? null, line, JSON.stringify(entry.key), now());
    const [result] = await swaps.write([{ record, expected: note?.version ?? null }]);
    if (result === undefined || result.ok) return;
    note = result.current;
    mine = (await standBehind(swaps, mine, lastOf(note, now()))) ?? mine;
  }
}

/**
 * Inside a transaction the note is swapped first: whoever else appends to this line waits for our commit, and an intent
 * that turns out to be there already gives the place back.
 */
export async function appendWithin(swaps: Swaps, line: NoteName, entry: LineEntry, now: () => Instant): Promise<void> {
  let [note = null] = await swaps.read([line.key]);
  const [known = null] = await swaps.read([entry.key]);
  if (known !== null) {
    await entry.insert(undefined);
    return;
  }
  for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
    const record = writeNote(note?.record ?? null, line, JSON.stringify(entry.key), now());
    const [result] = await swaps.write([{ record, expected: note?.version ?? null }]);
    if (result?.ok) {
      const last = lastOf(note, now());
      if ((await entry.insert(last)) !== null) return;
      const back = writeNote(record, line, JSON.stringify(last ?? null), now());
      await swaps.write([{ record: back, expected: result.version }]);
      return;
    }
    note = result?.current ?? null;
  }
  throw tooBusy(entry.key);
}

function lastOf(note: Stored | null, at: Instant): string | undefined {
  const json = readNote(note?.record ?? null, at);
  return json === null ? undefined : ((JSON.parse(json) as string | null) ?? undefined);
}

async function standBehind(swaps: Swaps, mine: Stored, after: string | undefined): Promise<Stored | null> {
  const { record, version } = mine;
  if (after === undefined || record.state !== "pending") return null;
  const moved: LedgerRecord = { ...record, terms: { ...record.terms, after } };
  const [result] = await swaps.write([{ record: moved, expected: version }]);
  return result?.ok ? { record: moved, version: result.version } : null;
}

function tooBusy(key: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `enqueue: the line of its orderKey changed ${MAX_SWAPS} times under this call. Call again: the intent is queued at most once.`,
    { key },
  );
}
