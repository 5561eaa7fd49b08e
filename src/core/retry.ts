/**
 * When what surely was not sent is tried again, and when it is given up. A direct call has somebody waiting for it, so its
 * tries are few and close together. Queued work has time: a provider that is down for a night or a weekend must not make
 * dead letters of it.
 */
import { type Duration, durationMs, formatDuration } from "./duration.ts";
import { configError, noSuchOption } from "./errors.ts";
import type { LedgerRecord, StoredError } from "./record.ts";

export interface QueuedRetryOptions {
  /** Tries in one round, the first one included. Given without `for`, the tries are bounded by their number alone. */
  readonly attempts?: number;
  /** The pause after the first try; it doubles with each try, with full jitter. Default: about a minute times the tries. */
  readonly backoff?: Duration;
  /** The longest pause. */
  readonly max?: Duration;
  /** How long queued work is tried, counted from its first try. "3d" by default; `expires` of an enqueue replaces the default. */
  readonly for?: Duration;
}

export interface RetryOptions extends QueuedRetryOptions {
  /** For queued work alone. The options beside it are then those of direct calls. */
  readonly queued?: QueuedRetryOptions;
}

export interface RetryPolicy {
  /** Tries in one round. */
  readonly attempts: number;
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** steps: the pause is `backoffMs` times the tries, at least half of it. doubles: exponential with full jitter. */
  readonly growth: "doubles" | "steps";
  /** How long it is tried from its first try; null: its number of tries is its only bound. */
  readonly forMs: number | null;
  /** `forMs` is the default, which an `expires` replaces. */
  readonly forByDefault: boolean;
  /** How often an attempt in doubt may be made in a row, where the doubt policy allows it. */
  readonly inDoubt: number;
}

/** A retry policy for direct calls, and the one for queued work. */
export interface RetryPolicies extends RetryPolicy {
  readonly queued: RetryPolicy;
}

const MAX_ATTEMPTS = 1_000;
const DIRECT_ATTEMPTS = 5;
const QUEUED_FOR = "3d";

const QUEUED = ["attempts", "backoff", "max", "for"];
const ALL = [...QUEUED, "queued"];

/** `queuedFor`: the default of `retry.for`. */
export function resolveRetry(
  retry: RetryOptions | undefined,
  where: string,
  queuedFor: Duration = QUEUED_FOR,
): RetryPolicies {
  const given = retry ?? {};
  checkNames(given, ALL, `${where}: retry`);
  const { queued = given } = given;
  if (queued !== given) checkNames(queued, QUEUED, `${where}: retry.queued`);
  if (queued !== given && given.for !== undefined) {
    throw configError(
      `${where}: retry.for is about queued work only, and retry.queued is given too. Move it there: retry: { queued: { for: ${JSON.stringify(given.for)} } }.`,
    );
  }
  const at = queued === given ? `${where}: retry` : `${where}: retry.queued`;
  return { ...direct(given, `${where}: retry`), queued: forQueue(queued, at, queuedFor) };
}

function direct({ attempts, backoff, max }: QueuedRetryOptions, where: string): RetryPolicy {
  const most = attemptsOf(attempts ?? DIRECT_ATTEMPTS, where);
  return {
    attempts: most,
    backoffMs: durationMs(backoff ?? "1s", `${where}.backoff`),
    maxBackoffMs: durationMs(max ?? "5m", `${where}.max`),
    growth: "doubles",
    forMs: null,
    forByDefault: true,
    inDoubt: most,
  };
}

function forQueue(options: QueuedRetryOptions, where: string, defaultFor: Duration): RetryPolicy {
  const { attempts, backoff, max, for: given } = options;
  const forMs = durationMs(given ?? defaultFor, `${where}.for`);
  if (forMs === 0)
    throw configError(
      `${where}.for is 0, so nothing would be tried again. Give a duration such as "3d", or attempts: 1.`,
    );
  return {
    attempts: attemptsOf(attempts ?? MAX_ATTEMPTS, where),
    backoffMs: durationMs(backoff ?? "1m", `${where}.backoff`),
    maxBackoffMs: durationMs(max ?? "3h", `${where}.max`),
    growth: backoff === undefined ? "steps" : "doubles",
    forMs: attempts !== undefined && given === undefined ? null : forMs,
    forByDefault: given === undefined,
    // Queued work may have been tried for days before its first doubt: those tries are not counted here.
    inDoubt: attempts ?? DIRECT_ATTEMPTS,
  };
}

function attemptsOf(attempts: number, where: string): number {
  if (Number.isInteger(attempts) && attempts >= 1 && attempts <= MAX_ATTEMPTS) return attempts;
  throw configError(`${where}.attempts is ${String(attempts)}; it takes a whole number from 1 to ${MAX_ATTEMPTS}.`);
}

/** A misspelled word would leave its default in place. */
function checkNames(options: object, known: readonly string[], where: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw configError(`${where} takes an object, such as { attempts: 5, backoff: "1s", max: "5m" }.`);
  }
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw noSuchOption(where, wrong, known);
}

type Tried = Pick<LedgerRecord, "queued" | "attempt" | "tries" | "terms" | "history">;

/** What the record goes by: a worker sees to it, or only calls do. */
export function retryOf(policies: RetryPolicies, { queued }: Pick<LedgerRecord, "queued">): RetryPolicy {
  return queued ? policies.queued : policies;
}

export function hasTriesLeft(policies: RetryPolicies, record: Tried, now: number): boolean {
  const policy = retryOf(policies, record);
  if (record.tries >= policy.attempts) return false;
  const givesUpAt = record.queued ? endOf(policy, record, now) : null;
  return givesUpAt === null || givesUpAt > now;
}

/** Whether an attempt in doubt may be made again, as far as its number is concerned. */
export function mayResend(policies: RetryPolicies, record: Tried): boolean {
  const { attempts, inDoubt } = retryOf(policies, record);
  if (!record.queued) return record.tries < attempts;
  return record.tries < attempts && resendsOf(record) < inDoubt - 1;
}

/** How often it was sent again since it was last known not to have happened. */
function resendsOf({ history }: Pick<LedgerRecord, "history">): number {
  let resends = 0;
  for (const { event, to } of history) {
    if (to === "pending" || to === "failed") resends = 0;
    else if (event === "resend") resends += 1;
  }
  return resends;
}

/** With jitter and a cap; a provider's own word (`Retry-After`) is a floor. */
export function backoffMs(
  policy: RetryPolicy,
  tries: number,
  retryAfterMs: number | null,
  random: () => number,
): number {
  const { growth, maxBackoffMs } = policy;
  const times = growth === "steps" ? Math.max(1, tries) : 2 ** Math.min(30, Math.max(0, tries - 1));
  const ceiling = Math.min(maxBackoffMs, policy.backoffMs * times);
  const share = growth === "steps" ? 0.5 + random() / 2 : random();
  return Math.max(Math.round(share * ceiling), retryAfterMs ?? 0);
}

/** What follows a try that surely sent nothing. `at` null: none follows. */
export interface NextTry {
  readonly at: number | null;
  /** To be kept in the record: when it is given up. */
  readonly givesUpAt?: number;
  /** Why it is given up although its number of tries would allow more. */
  readonly because?: string;
}

const NO_NEXT: NextTry = { at: null };

export function nextTry(
  policies: RetryPolicies,
  record: Tried,
  {
    now,
    retryAfterMs,
    random,
  }: { readonly now: number; readonly retryAfterMs: number | null; readonly random: () => number },
): NextTry {
  const policy = retryOf(policies, record);
  if (record.tries >= policy.attempts) return NO_NEXT;
  const at = now + backoffMs(policy, record.tries, retryAfterMs, random);
  if (!record.queued) return { at };
  const { notAfter } = record.terms ?? {};
  // Not begun after its deadline: there it is put aside as expired, and not a pause later.
  const next = notAfter === undefined ? at : Math.max(now, Math.min(at, notAfter));
  const givesUpAt = endOf(policy, record, now);
  if (givesUpAt === null || next < givesUpAt) return { at: next, ...(givesUpAt !== null && { givesUpAt }) };
  if (now >= givesUpAt) return { at: null, because: gaveUp(policy, record) };
  if (retryAfterMs !== null && now + retryAfterMs > givesUpAt)
    return { at: null, because: askedToWait(now + retryAfterMs, givesUpAt) };
  // The last try is made when the time is over, not a pause before that.
  return { at: givesUpAt, givesUpAt };
}

/** From its first failed try on: a worker that was away, or an order, does not use up the time. */
function endOf({ forMs, forByDefault }: RetryPolicy, { terms }: Tried, now: number): number | null {
  if (forMs === null || (forByDefault && terms?.notAfter !== undefined)) return null;
  return terms?.givesUpAt ?? now + forMs;
}

function gaveUp({ forMs }: RetryPolicy, { attempt }: Tried): string {
  return `given up after ${formatDuration(forMs ?? 0)} of tries, at attempt ${attempt}`;
}

function askedToWait(until: number, givesUpAt: number): string {
  const [asked, end] = [until, givesUpAt].map((at) => new Date(at).toISOString());
  return `given up: the next try was asked for not before ${asked}, and its tries end at ${end}`;
}

/** The error of the last try, with why no other follows. */
export function givenUp(error: StoredError, because: string | undefined): StoredError {
  return because === undefined ? error : { ...error, message: `${error.message} (${because})` };
}
