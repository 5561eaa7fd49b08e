/** Columns that look like a status. One that nobody explained is refused: a row that says "claimed" in it is not done. */
import { UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import type { Row } from "./row.ts";

const STATUS = /(?:^|_)(?:status|state|phase|stage|outcome)$/i;
const ENDED =
  /^(?:(?:is|was|has|has_been)_)?(?:\w+_)?(?:sent|done|completed?|processed|delivered|confirmed|finished|published|failed|succeeded|success|pending)$/i;

const NEGATIVE = /(?:^|_)(?:failed|pending)$/i;

/**
 * The members of a JSON object that say what became of it. A flag such as `completed: false` says the same as a word; one such
 * as `failed: false` says nothing.
 */
export function statusMembers(found: object): { readonly name: string; readonly value: unknown }[] {
  return Object.entries(found).flatMap(([name, value]) => {
    const snake = name.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
    if (value === null || !looksLikeStatus(snake, value)) return [];
    if (STATUS.test(snake) || !NEGATIVE.test(snake)) return [{ name, value }];
    const isSet = /^(?:true|t|1)$/i.test(String(value));
    return isSet ? [{ name, value: /failed$/i.test(snake) ? "failed" : "pending" }] : [];
  });
}

/** By its name, and for what may also be a count or a text, by its value: true or false. */
function looksLikeStatus(name: string, value: unknown): boolean {
  if (STATUS.test(name)) return true;
  return ENDED.test(name) && (typeof value === "boolean" || /^(?:true|false|t|f|0|1)$/i.test(String(value)));
}

/** `explained`: the columns that are read as something, or that the user said to leave out. */
export function refuseUnexplained(row: Row, explained: readonly string[]): void {
  for (const name of Object.keys(row)) {
    if (explained.includes(name) || !looksLikeStatus(name, row[name])) continue;
    const column = oneLine(name);
    throw new UsageError(
      `the column ${column} looks like a status (here: ${oneLine(JSON.stringify(row[name]) ?? "")}), and nobody said what it means: a row that is not done would count as done. Read it with --status-column ${column} (and --status word=meaning for words that are not known), or leave it out with --ignore ${column}. For the tables of known patterns see --as, in: nevertwice help import.`,
    );
  }
}
