/** What rows say about their effects, and what several rows of one key say together. */
import { UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

/** doubt: it may have happened · queued: a worker is to do it · not-done: it never happened, and there is no record of it. */
export type End = "done" | "failed" | "doubt" | "queued" | "not-done";

/** What a row's status says about its effect. */
const STATUSES: ReadonlyMap<string, End> = new Map([
  ...words(
    "done completed complete sent success succeeded processed confirmed delivered published ok true t 1",
    "done",
  ),
  ...words("failed failure error dead cancelled canceled", "failed"),
  ...words("in_progress in-progress pending claimed processing running sending started in_flight queued", "doubt"),
  ...words("false f 0", "not-done"),
]);

export const STATUS_WORDS: readonly string[] = [...STATUSES.keys()];

function words(list: string, meaning: End): [string, End][] {
  return list.split(" ").map((word) => [word, meaning]);
}

export type Statuses = ReadonlyMap<string, { readonly as: End; readonly word: string }>;

/** The words that are known, and before them those of `own`. */
export function statusesWith(own: ReadonlyMap<string, End>): Statuses {
  return new Map([...STATUSES, ...own].map(([word, as]) => [word, { as, word }]));
}

/** Undefined: the word says nothing about whether it happened. */
export function endOf(status: unknown, statuses: Statuses): { readonly as: End; readonly word: string } | undefined {
  return statuses.get(wordOf(status));
}

export function wordOf(status: unknown): string {
  return String(status).trim().toLowerCase();
}

const MEANINGS: ReadonlyMap<string, End> = new Map([
  ["done", "done"],
  ["failed", "failed"],
  ["unknown", "doubt"],
  ["not-done", "not-done"],
]);

/** --status bounced=failed,"in review"=unknown. `queued`: the rows have a payload that a worker can run. */
export function statusMap(given: readonly string[], queued: boolean): ReadonlyMap<string, End> {
  const meanings = queued ? new Map([...MEANINGS, ["queued", "queued"] as const]) : MEANINGS;
  return new Map(
    given.map((one) => {
      const at = one.lastIndexOf("=");
      const meaning = meanings.get(one.slice(at + 1).trim());
      if (at < 0 || meaning === undefined)
        throw new UsageError(
          `--status ${oneLine(one)}: it takes <word>=<meaning>, for example bounced=failed. The meanings are: ${[...meanings.keys()].join(", ")}.`,
        );
      return [wordOf(one.slice(0, at)), meaning] as const;
    }),
  );
}

/** For errors about a word that nobody knows. */
export function howToMap(status: unknown): string {
  const word = oneLine(wordOf(status));
  return `Say what it means: --status "${word}=done", or failed, unknown (it may have happened) or not-done.`;
}

export interface RowEnd {
  readonly as: End;
  /** Which word said so; "": none did. */
  readonly word: string;
  readonly place: number;
  readonly at: number | null;
  /** A digest of what a worker would be given, where the row is of an outbox. */
  readonly input?: string;
}

/** All rows of one key. The order in the file does not matter where the rows have times. */
export interface KeyRows {
  /** The first row that is done: its result is kept. */
  done: RowEnd | null;
  lastDone: RowEnd | null;
  /** The last row that is not done. */
  other: RowEnd | null;
  rows: number;
  failures: number;
  /** Rows with the first word that said "under way": how often it was begun. */
  begun: number;
  beginWord: string | null;
  /** Set when its record was left out, because it is past --keep. */
  past: boolean;
  /** Two rows that are not done, with different inputs: which of them is to be done is not certain. */
  differ?: { readonly one: RowEnd; readonly other: RowEnd };
}

export function addRow(known: KeyRows | undefined, row: RowEnd): KeyRows {
  const key = known ?? {
    done: null,
    lastDone: null,
    other: null,
    rows: 0,
    failures: 0,
    begun: 0,
    beginWord: null,
    past: false,
  };
  key.rows += 1;
  if (row.as === "done") {
    if (key.done === null || isBefore(row, key.done)) key.done = row;
    if (key.lastDone === null || !isBefore(row, key.lastDone)) key.lastDone = row;
    return key;
  }
  const before = key.other;
  if (before?.input !== undefined && row.input !== undefined && before.input !== row.input)
    key.differ ??= { one: before, other: row };
  if (key.other === null || !isBefore(row, key.other)) key.other = row;
  if (row.as === "failed") key.failures += 1;
  else if (row.as === "doubt") {
    key.beginWord ??= row.word;
    if (key.beginWord === row.word) key.begun += 1;
  }
  return key;
}

function isBefore(one: RowEnd, other: RowEnd): boolean {
  if (one.at !== null && other.at !== null && one.at !== other.at) return one.at < other.at;
  return one.place < other.place;
}

/**
 * What the rows say together, and the row whose result or error is kept. Done wins: a later failure does not undo an
 * effect. A failure ends one attempt: where more were begun than failed, one of them may have happened.
 */
export function togetherAs({ done, other, begun, failures }: KeyRows): { readonly as: End; readonly row: RowEnd } {
  if (done !== null) return { as: "done", row: done };
  const row = other as RowEnd;
  return { as: begun > failures ? "doubt" : row.as, row };
}

/** A row that says "failed" or "under way" after the last one that says "done". */
export function contradiction({ lastDone, other }: KeyRows): { readonly done: RowEnd; readonly other: RowEnd } | null {
  if (lastDone === null || other === null || isBefore(other, lastDone)) return null;
  return { done: lastDone, other };
}
