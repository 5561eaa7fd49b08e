/** Doubts with the same error, put together: one bug often leaves hundreds, and one decision settles them. */
import { createHash } from "node:crypto";
import type { LedgerRecord } from "../core/record.ts";
import type { Store } from "../core/store.ts";
import { type DoubtFilter, pagesOfDoubts } from "./doubts.ts";

export interface DoubtKind {
  /** Short and stable: the same error of the same action has the same id in every ledger. */
  readonly id: string;
  readonly action: string;
  /** The error's name and message with what varies from call to call left out; not made harmless for a terminal. */
  readonly error: string;
}

export interface DoubtGroup extends DoubtKind {
  readonly count: number;
  /** When its oldest doubt began. */
  readonly since: number;
  /** One of its records, to look at. */
  readonly example: LedgerRecord;
}

const ID_LENGTH = 8;
const SILENT_HOLDER = "its holder stopped answering after the send mark";

export function kindOfDoubt({ key, action, error, why }: LedgerRecord): DoubtKind {
  const code = error?.code === undefined ? "" : ` (${error.code})`;
  const message = error === null ? (why ?? SILENT_HOLDER) : error.message;
  const shape = shapeOf(message);
  const shown = saysSomething(shape) ? shape : message.slice(0, MESSAGE_READ);
  const text = error === null ? shown : `${error.name}: ${shown}${code}`;
  // Two messages that were redacted to nothing look the same and need not be: each is a kind of its own.
  const own = message.includes("…") && !saysSomething(message) ? [key] : [];
  const digest = createHash("sha256")
    .update(JSON.stringify([action, text, ...own]))
    .digest("hex");
  return { id: digest.slice(0, ID_LENGTH), action, error: text };
}

/** Whether a word is left that tells one error from another. One decision must not settle errors that only lost their words. */
function saysSomething(shape: string): boolean {
  return /\p{L}/u.test(
    shape.replace(/\b(?:errors?|exception|fail(?:ed|ure)?|message|reason|code|status|details?|cause)\b/gi, ""),
  );
}

const MESSAGE_READ = 500;

/**
 * Quoted values, addresses, and every word with a digit in it vary from call to call. A lone 4xx or 5xx stays: it is likely
 * an HTTP status, and a 400 and a 500 want different decisions.
 */
export function shapeOf(message: string): string {
  return message
    .slice(0, MESSAGE_READ)
    .replace(/"[^"]*"|`[^`]*`|“[^”]*”|(?<!\w)'[^']*'(?!\w)/g, "…")
    .replace(/\S+@\S+|\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, "…")
    .replace(/[\w-]*\d[\w-]*/g, (word) => (/^[45]\d\d$/.test(word) ? word : "#"))
    .replace(/\s+/g, " ")
    .trim();
}

/** When a doubt began, as far as the ledger knows. */
export function doubtBegan({ doubtSince, lastSentAt, updatedAt }: LedgerRecord): number {
  return doubtSince ?? lastSentAt ?? updatedAt;
}

// Enough to see what goes wrong; a settlement reads them all.
const MOST_GROUPED = 2_000;

/** The largest groups first. `all`: whether every doubt was counted. */
export async function groupDoubts(
  store: Store,
  filter: Omit<DoubtFilter, "limit">,
): Promise<{ readonly groups: readonly DoubtGroup[]; readonly counted: number; readonly all: boolean }> {
  const groups = new Map<string, DoubtGroup>();
  const seen = new Set<string>();
  let all = true;
  for await (const page of pagesOfDoubts(store, filter)) {
    if (seen.size >= MOST_GROUPED) {
      all = false;
      break;
    }
    for (const { record } of page) {
      if (seen.has(record.key)) continue;
      seen.add(record.key);
      const kind = kindOfDoubt(record);
      const known = groups.get(kind.id) ?? { ...kind, count: 0, since: Number.POSITIVE_INFINITY, example: record };
      const since = Math.min(known.since, doubtBegan(record));
      groups.set(kind.id, { ...known, count: known.count + 1, since });
    }
  }
  return { groups: [...groups.values()].sort((a, b) => b.count - a.count), counted: seen.size, all };
}
