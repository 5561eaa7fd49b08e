/**
 * What a settlement says besides what became of the attempt. That is worth more than its details: a text that cannot be
 * stored, or a pause that cannot be understood, must not leave a doubt about an effect whose caller knows the answer.
 */
import { type Duration, durationMs } from "../core/duration.ts";
import { storableText } from "../core/storable-text.ts";

export interface Details {
  /** The request, with details that can be stored. */
  readonly body: unknown;
  /** What was left out; null: nothing. */
  readonly warning: string | null;
}

const LONGEST_NAME = 200;
const LONGEST_MESSAGE = 10_000;
const LONGEST_PAUSE_MS = 366 * 86_400_000;

export function storableDetails(given: unknown): Details {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return { body: given, warning: null };
  const { error, retryAfter, ...rest } = given as Readonly<Record<string, unknown>>;
  const warnings: string[] = [];
  const pause = retryAfter === undefined || retryAfter === null ? undefined : pauseOf(retryAfter);
  if (pause === null)
    warnings.push('retryAfter was left out: it takes a duration such as "30s", milliseconds, or HTTP\'s Retry-After');
  const told = error === undefined || error === null ? undefined : errorOf(error);
  return {
    body: {
      ...rest,
      ...(told !== undefined && { error: told }),
      ...(pause !== undefined && pause !== null && { retryAfter: pause }),
    },
    warning: warnings.length === 0 ? null : warnings.join("; "),
  };
}

/** Also as in HTTP's Retry-After: whole seconds as text, or a date. Null: it cannot be understood. */
function pauseOf(given: unknown): Duration | null {
  const text = typeof given === "string" ? given.trim() : null;
  if (text !== null && /^\d+$/.test(text)) return bounded(Number(text) * 1_000);
  if (text !== null && /^[A-Za-z]{3,9},? /.test(text)) {
    const at = Date.parse(text);
    return Number.isNaN(at) ? null : bounded(Math.max(0, at - Date.now()));
  }
  try {
    return bounded(durationMs((text ?? given) as Duration, "retryAfter"));
  } catch {
    return null;
  }
}

function bounded(ms: number): number {
  return Math.min(ms, LONGEST_PAUSE_MS);
}

function errorOf(given: unknown): { readonly name?: string; readonly message: string; readonly code?: string } {
  const fields = (typeof given === "object" ? given : { message: given }) as Readonly<Record<string, unknown>>;
  const [name, code] = [textOf(fields.name, LONGEST_NAME), textOf(fields.code, LONGEST_NAME)];
  const message = textOf(fields.message, LONGEST_MESSAGE) ?? name ?? code ?? "no message was given";
  return { ...(name !== undefined && { name }), message, ...(code !== undefined && { code }) };
}

function textOf(value: unknown, longest: number): string | undefined {
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return undefined;
  const text = String(value).slice(0, longest);
  return text.trim() === "" ? undefined : storableText(text);
}
