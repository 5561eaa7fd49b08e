/** The first reading of a file: every row is checked before any is written, and the rows of one key are put together. */
import { ProblemError } from "../term/exit.ts";
import type { Entry, EntrySource } from "./entries.ts";
import type { SourceFile } from "./file.ts";
import { addRow, contradiction, type End, type KeyRows, togetherAs } from "./status.ts";

export interface Survey {
  readonly rows: number;
  readonly keys: ReadonlyMap<string, KeyRows>;
  /** Rows with line breaks in their values, and the first of them. */
  readonly withBreaks: number;
  readonly firstBreak: number;
  /** Keys of which a row contradicts a done one: they count as done (--done-wins). */
  readonly contradictions: number;
}

// What is held in memory of a file: less than 800 bytes each (500 000 keys with node --max-old-space-size=400).
const MOST_KEYS = 2_000_000;
const SHOWN = 5;

const PROGRESS_ROWS = 1_000;

export async function survey(
  entries: EntrySource,
  source: SourceFile,
  doneWins: boolean,
  onProgress: (rows: number) => void,
): Promise<Survey> {
  const keys = new Map<string, KeyRows>();
  let [rows, withBreaks, firstBreak, last] = [0, 0, 0, 0];
  for await (const { intent, end, place, breaks } of entries) {
    // A row may say something about several intents.
    if (place !== last) rows += 1;
    last = place;
    if (rows % PROGRESS_ROWS === 0) onProgress(rows);
    if (breaks > 0) {
      withBreaks += 1;
      firstBreak ||= place;
    }
    const known = keys.get(intent.key);
    const together = addRow(known, end);
    if (known !== undefined) continue;
    if (keys.size >= MOST_KEYS)
      throw new ProblemError(
        `${source.name} has more than ${MOST_KEYS} different keys. Nothing was imported. Split it into several files and import one after the other: a record is never weakened by a later file.`,
      );
    keys.set(intent.key, together);
  }
  refuseDifferent(keys, source);
  const contradictions = contradicted(keys, source, doneWins);
  return { rows, keys, withBreaks, firstBreak, contradictions };
}

/** A key stands for one effect: of two payloads one would never be sent. */
function refuseDifferent(keys: ReadonlyMap<string, KeyRows>, { name, unit }: SourceFile): void {
  const found = [...keys.values()].filter(({ differ, done }) => differ !== undefined && done === null);
  if (found.length === 0) return;
  const shown = found
    .slice(0, SHOWN)
    .map(({ differ }) => `${unit} ${differ?.one.place} and ${unit} ${differ?.other.place}`);
  const more = found.length > shown.length ? ` (and ${found.length - shown.length} more keys)` : "";
  throw new ProblemError(
    `${name}: rows of one key have different payloads: ${shown.join("; ")}${more}. A key stands for one effect, so one of them would be lost. Nothing was imported. Remove the row that is not to be sent, or give it a key of its own.`,
  );
}

function contradicted(keys: ReadonlyMap<string, KeyRows>, { name, unit }: SourceFile, doneWins: boolean): number {
  const found: string[] = [];
  let count = 0;
  for (const key of keys.values()) {
    const pair = contradiction(key);
    if (pair === null) continue;
    count += 1;
    if (found.length < SHOWN)
      found.push(
        `${unit} ${pair.done.place} says ${pair.done.word || "done (no status)"} and ${unit} ${pair.other.place}, later, ${pair.other.word || "that it is in doubt"}`,
      );
  }
  if (count === 0 || doneWins) return count;
  const more = count > found.length ? ` (and ${count - found.length} more keys)` : "";
  throw new ProblemError(
    `${name}: rows of one key contradict each other: ${found.join("; ")}${more}. Nothing was imported. Correct the file, or add --done-wins: what was done once counts as done, whatever came later.`,
  );
}

/** Whether the record of the key is made from this row, and what all rows of the key say together. */
export function representedBy(entry: Entry, { keys }: Survey): { readonly key: KeyRows; readonly as: End } | null {
  const key = keys.get(entry.intent.key);
  if (key === undefined) return null;
  const { as, row } = togetherAs(key);
  return row.place === entry.place ? { key, as } : null;
}
