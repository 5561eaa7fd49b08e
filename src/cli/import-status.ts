/** What rows say about their effects, and what several rows of one key say together. */

export type End = "done" | "failed" | "doubt";

/** What a row's status says about its effect. */
const STATUSES: ReadonlyMap<string, End> = new Map([
  ...words(
    "done completed complete sent success succeeded processed confirmed delivered published ok true t 1",
    "done",
  ),
  ...words("failed failure error dead cancelled canceled", "failed"),
  ...words(
    "in_progress in-progress pending claimed processing running sending started in_flight queued false f 0",
    "doubt",
  ),
]);

export const STATUS_WORDS: readonly string[] = [...STATUSES.keys()];

function words(list: string, meaning: End): [string, End][] {
  return list.split(" ").map((word) => [word, meaning]);
}

/** Undefined: the word says nothing about whether it happened. */
export function endOf(status: unknown): { readonly as: End; readonly word: number } | undefined {
  const word = String(status).trim().toLowerCase();
  const as = STATUSES.get(word);
  return as === undefined ? undefined : { as, word: STATUS_WORDS.indexOf(word) };
}

export interface RowEnd {
  readonly as: End;
  /** Which word said so. */
  readonly word: number;
  readonly place: number;
  readonly at: number | null;
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
  beginWord: number;
  /** Set when its record was left out, because it is past --keep. */
  past: boolean;
}

export function addRow(known: KeyRows | undefined, row: RowEnd): KeyRows {
  const key = known ?? {
    done: null,
    lastDone: null,
    other: null,
    rows: 0,
    failures: 0,
    begun: 0,
    beginWord: -1,
    past: false,
  };
  key.rows += 1;
  if (row.as === "done") {
    if (key.done === null || isBefore(row, key.done)) key.done = row;
    if (key.lastDone === null || !isBefore(row, key.lastDone)) key.lastDone = row;
    return key;
  }
  if (key.other === null || !isBefore(row, key.other)) key.other = row;
  if (row.as === "failed") key.failures += 1;
  else {
    if (key.beginWord === -1) key.beginWord = row.word;
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
