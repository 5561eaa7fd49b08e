/**
 * The cause of a doubt, in a normal form: one bug or one outage often leaves hundreds, and one decision settles them.
 * What varies from call to call is left out of the text.
 */
import { createHash } from "node:crypto";
import { isStep, stepOf } from "./entry-name.ts";
import type { LedgerRecord } from "./record.ts";

export interface DoubtCause {
  /** Short and stable: the same error of the same action has the same id in every ledger. */
  readonly id: string;
  readonly action: string;
  /** The step of a run or a sequence, where it is one: a charge and a mail want different decisions. */
  readonly step: string | null;
  /** The error's name and message in its normal form, and its code; not made harmless for a terminal. */
  readonly error: string;
  /** Its message was redacted to nothing: it is a cause of its own, which no text selects. */
  readonly isAlone: boolean;
}

const ID_LENGTH = 8;
/** How `why` begins after a lapse: before and after a sweep has written it down, it is the same cause. */
const SILENT_HOLDER = "its holder stopped answering after the send mark";

export function kindOfDoubt(record: LedgerRecord): DoubtCause {
  const { key, action } = record;
  const step = stepOf(record);
  const message = messageOf(record);
  const text = textOf(record, normalForm(message));
  // Two messages that were redacted to nothing look the same and need not be: each is a kind of its own.
  const isAlone = message.includes("…") && !saysSomething(message);
  const digest = createHash("sha256")
    .update(JSON.stringify([action, text, ...(isAlone ? [key] : []), ...stepMark(record, step)]))
    .digest("hex");
  return { id: digest.slice(0, ID_LENGTH), action, step, error: text, isAlone };
}

/** Where the name is sealed, its digest tells steps apart. */
function stepMark({ action, fingerprint }: LedgerRecord, step: string | null): object[] {
  const mark = step ?? (isStep(action) ? fingerprint.fields.step : undefined);
  return mark === undefined ? [] : [{ step: mark }];
}

function messageOf({ error, why }: LedgerRecord): string {
  if (error !== null) return error.message;
  return why === null || why.startsWith(SILENT_HOLDER) ? SILENT_HOLDER : why;
}

function textOf({ error }: LedgerRecord, message: string): string {
  if (error === null) return message;
  return `${error.name}: ${message}${codeOf(error)}`;
}

function codeOf({ code }: { readonly code?: string }): string {
  return code === undefined ? "" : ` (${code})`;
}

/**
 * Whether a doubt has this cause: the text as kindOfDoubt() has it, or the error as it came, with its name and code. No
 * part of a text will do: it would select more than was looked at.
 */
export function hasCause(given: string): (record: LedgerRecord) => boolean {
  const wanted = onOneLine(given);
  return (record) => {
    const { error, isAlone } = kindOfDoubt(record);
    if (isAlone) return false;
    if (onOneLine(error) === wanted) return true;
    const message = messageIn(wanted, record.error);
    return message !== null && onOneLine(textOf(record, normalForm(message))) === onOneLine(error);
  };
}

/** What is between the name and the code of this error; null: the text has others. */
function messageIn(text: string, error: LedgerRecord["error"]): string | null {
  if (error === null) return text;
  const [name, code] = [`${error.name}: `, codeOf(error)];
  if (!text.startsWith(name) || !text.endsWith(code) || text.length < name.length + code.length) return null;
  return text.slice(name.length, text.length - code.length);
}

const onOneLine = (text: string) => text.replace(/\s+/g, " ").trim();

/** The shape of a message, or the message where that would leave no word of it. */
export function normalForm(message: string): string {
  const shape = shapeOf(message);
  return saysSomething(shape) ? shape : message.slice(0, MESSAGE_READ);
}

/** Whether a word is left that tells one error from another. One decision must not settle errors that only lost their words. */
function saysSomething(shape: string): boolean {
  return /\p{L}/u.test(
    shape.replace(/\b(?:errors?|exception|fail(?:ed|ure)?|message|reason|code|status|details?|cause)\b/gi, ""),
  );
}

const MESSAGE_READ = 500;

// Neither "within 480 ms" nor "order 480" is a status. In doubt it is one: two causes too many cost less than one too few.
const NAMED =
  /\b(?:request|order|account|user|customer|lead|contact|invoice|payment|message|mail|job|task|item|line|row|record|page|batch|port|pid|process|id|no\.?|number|nr\.?)[\s:=#]*$/i;
const MEASURE =
  /^\s?(?:%|(?:ms|milliseconds?|s|secs?|seconds?|min|minutes?|h|hours?|bytes?|[kmg]i?b|times|attempts|tries|rows|items|records|tokens|characters|chars)\b)/i;

function isStatus(word: string, before: string, after: string): boolean {
  return /^[45]\d\d$/.test(word) && !NAMED.test(before) && !MEASURE.test(after);
}

/**
 * Quoted values, addresses, and every word with a digit in it vary from call to call. A lone 4xx or 5xx stays, unless it
 * counts or names something: it is likely an HTTP status, and a 400 and a 500 want different decisions.
 */
export function shapeOf(message: string): string {
  return message
    .slice(0, MESSAGE_READ)
    .replace(/"[^"]*"|`[^`]*`|“[^”]*”|(?<!\w)'[^']*'(?!\w)/g, "…")
    .replace(/\S+@\S+|\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, "…")
    .replace(/[\w-]*\d[\w-]*/g, (word, at: number, text: string) =>
      isStatus(word, text.slice(0, at), text.slice(at + word.length)) ? word : "#",
    )
    .replace(/\s+/g, " ")
    .trim();
}

/** When a doubt began, as far as the ledger knows. */
export function doubtBegan({ doubtSince, lastSentAt, updatedAt }: LedgerRecord): number {
  return doubtSince ?? lastSentAt ?? updatedAt;
}
