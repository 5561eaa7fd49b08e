/**
 * What nevertwice throws, and the three words a user's function may throw to say more than an exception can.
 */
import { nearest } from "./nearest.ts";
import { redact } from "./redact.ts";

export type ErrorCode =
  | "IN_FLIGHT"
  | "FAILED"
  | "OUTCOME_UNKNOWN"
  | "KEY_CONFLICT"
  | "INVALID_KEY"
  | "INVALID_INPUT"
  | "LEASE_LOST"
  | "STORE_UNAVAILABLE"
  | "RESULT_UNAVAILABLE"
  | "CONFIG";

export interface ErrorDetails {
  readonly key?: string | undefined;
  readonly cause?: unknown;
  readonly outcome?: unknown;
}

/** Every error of nevertwice: a stable `code`, the `key` where one is known, and a sentence that says what to do next. */
export class NevertwiceError extends Error {
  override readonly name = "NevertwiceError";
  readonly code: ErrorCode;
  readonly key: string | undefined;
  /** The outcome that `attempt()` would have returned, where the error stands for one. */
  readonly outcome: unknown;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    // Messages repeat what a program or a driver said: a store's URL, a command line. Its secrets stay behind.
    super(redact(message), details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.key = details.key;
    this.outcome = details.outcome;
  }
}

// Marks travel by registered symbol, not by class: two copies of the package in one process must understand each other.
const NOT_SENT = Symbol.for("nevertwice.notSent");
const REFUSED = Symbol.for("nevertwice.refused");
const REJECTED = Symbol.for("nevertwice.rejected");

export interface NotSentOptions {
  /** When the provider said to come back: a duration ("30s", milliseconds) or a Date. */
  readonly retryAfter?: string | number | Date;
}

export interface NotSentMark {
  readonly cause: unknown;
  readonly retryAfter: string | number | Date | undefined;
}

function markedError(message: string, cause: unknown, symbol: symbol, mark: unknown): Error {
  const error = new Error(message, { cause });
  Object.defineProperty(error, symbol, { value: mark, enumerable: false });
  return error;
}

/** The cause is what a caller gets thrown: a message becomes an error. */
function asError(cause: unknown): unknown {
  return typeof cause === "string" ? new Error(cause) : cause;
}

/** Throw this from `run` or `prepare`: nothing was sent, so another try is safe. The cause: an error, or its message. */
export function notSent(cause: unknown, options: NotSentOptions = {}): Error {
  const error = asError(cause);
  const mark: NotSentMark = { cause: error, retryAfter: options.retryAfter };
  return markedError(`not sent: ${messageOf(error)}`, error, NOT_SENT, mark);
}

const PUT_OFF = Symbol.for("nevertwice.putOff");

export interface PutOff {
  /** Epoch ms of the store's clock. */
  readonly until: number;
  /** The record goes to the end of its order instead of holding up those behind it. */
  readonly yieldsPlace: boolean;
}

/** Throw this from `prepare`: it is too early. Nothing was tried, so the attempt does not count. */
export function putOff(cause: Error, mark: PutOff): Error {
  return markedError(`put off: ${cause.message}`, cause, PUT_OFF, mark);
}

export function putOffMark(error: unknown): PutOff | undefined {
  return readMark<PutOff>(error, PUT_OFF);
}

/**
 * Throw this from `run`, `prepare` or a tool: it did not happen, and the same again would not either. It is not retried by
 * itself; a corrected call may follow. The cause is the error that the caller gets: an error, or its message.
 */
export function refused(cause: unknown): Error {
  const error = asError(cause);
  return markedError(`refused: ${messageOf(error)}`, error, REFUSED, { cause: error });
}

/** Throw this from `run` or `prepare`: the effect was refused for good and did not happen. The cause: an error, or its message. */
export function rejected(cause: unknown): Error {
  const error = asError(cause);
  return markedError(`rejected: ${messageOf(error)}`, error, REJECTED, { cause: error });
}

export function notSentMark(error: unknown): NotSentMark | undefined {
  return readMark<NotSentMark>(error, NOT_SENT);
}

export function refusedMark(error: unknown): { readonly cause: unknown } | undefined {
  return readMark<{ readonly cause: unknown }>(error, REFUSED);
}

export function rejectedMark(error: unknown): { readonly cause: unknown } | undefined {
  return readMark<{ readonly cause: unknown }>(error, REJECTED);
}

/** The error behind the word: what `notSent`, `refused` or `rejected` was given; any other error as it is. */
export function unmarked(error: unknown): unknown {
  const mark = rejectedMark(error) ?? refusedMark(error) ?? notSentMark(error);
  return mark === undefined ? error : mark.cause;
}

/** On an error that `classify` answers with "doubt": why, in words for the person who has to settle it. */
export const DOUBT_REASON = Symbol.for("nevertwice.doubtReason");

/** An answer of `classify`: "doubt", and why. For those of the package itself. */
export interface DoubtBecause {
  readonly [DOUBT_REASON]: string;
}

export function doubtBecause(why: string): DoubtBecause {
  return { [DOUBT_REASON]: why };
}

export function doubtReason(error: unknown): string | undefined {
  return readMark<string>(error, DOUBT_REASON);
}

function readMark<T>(error: unknown, symbol: symbol): T | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  return (error as Record<symbol, T | undefined>)[symbol];
}

export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message || error.name;
  if (typeof error === "string") return error;
  try {
    return JSON.stringify(error) ?? String(error);
  } catch {
    return String(error);
  }
}

export function isNevertwiceError(error: unknown): error is NevertwiceError {
  return error instanceof Error && error.name === "NevertwiceError" && "code" in error;
}

export function isStoreUnavailable(error: unknown): boolean {
  return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
}

// Cause chains are data from elsewhere, and may be circular.
const MOST_CAUSES = 8;
const SHOWN_OF_INNER = 1_000;

/** What a nevertwice error says that is hidden in a cause, for the message of the error around it; "" where there is none. */
export function innerMessage(cause: unknown): string {
  let inner = cause;
  for (let depth = 0; depth < MOST_CAUSES && inner instanceof Error; depth += 1) {
    if (isNevertwiceError(inner)) return shortened(inner.message);
    inner = inner.cause;
  }
  return "";
}

function shortened(message: string): string {
  return message.length > SHOWN_OF_INNER ? `${message.slice(0, SHOWN_OF_INNER - 1)}…` : message;
}

export function configError(message: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("CONFIG", message, { cause });
}

/** A word that is no option of what `where` names: misspelled, or of something else. */
export function noSuchOption(where: string, option: string, known: Iterable<string>): NevertwiceError {
  const options = [...known];
  const meant = nearest(option, options);
  const hint = meant === null ? "" : ` Did you mean ${meant}?`;
  return configError(
    `${where}: there is no option ${JSON.stringify(option)}. The options are: ${options.join(", ")}.${hint}`,
  );
}
