/**
 * The name of an attempt for whoever makes it outside: the record's key, the fence and the holder of the claim, and the
 * terms on which it is settled. The service keeps none of this, so that an attempt outlives a restart of the service.
 */
import { durationMs } from "../core/duration.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isKey } from "../core/key/key.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { RetryOptions } from "../core/retry.ts";
import type { Hold } from "../core/transition.ts";

/** What heartbeats and settling need of the claim: it is not in the record. */
export interface AttemptTerms {
  readonly leaseMs: number;
  /** As the claim gave it; the defaults are looked up when it is settled. */
  readonly retry?: RetryOptions | undefined;
  /** Who took it, where the record names who enqueued it. */
  readonly agent?: string | undefined;
}

export interface AttemptName {
  readonly key: string;
  readonly hold: Hold;
  readonly terms: AttemptTerms;
}

const PREFIX = "nta1_";
/** Of a token; the longest name of an agent fits. */
export const LONGEST_TOKEN = 2_048;

export function tokenOf({ key, fence, holder }: LedgerRecord, { leaseMs, retry, agent }: AttemptTerms): string {
  const more = { ...(retry !== undefined && { retry: inMs(retry) }), ...(agent !== undefined && { agent }) };
  return PREFIX + Buffer.from(JSON.stringify([key, fence, holder, leaseMs, more])).toString("base64url");
}

/** Durations as numbers, so that no token is longer than one may be. */
function inMs(retry: RetryOptions): RetryOptions {
  const entries = Object.entries(retry).map(([name, value]) => [
    name,
    typeof value === "string" ? durationMs(value, `retry.${name}`) : value,
  ]);
  return Object.fromEntries(entries) as RetryOptions;
}

export function attemptOf(token: string): AttemptName {
  const attempt = namedBy(token);
  if (attempt !== null) return attempt;
  throw new NevertwiceError(
    "INVALID_INPUT",
    `the token names no attempt. Hand back the token of a claim or a take as it came: it begins with ${PREFIX}.`,
  );
}

function namedBy(token: string): AttemptName | null {
  const fields = token.length > LONGEST_TOKEN ? null : fieldsOf(token);
  if (fields === null || fields.length !== 5) return null;
  const [key, fence, holder, leaseMs, more] = fields;
  if (typeof key !== "string" || !isKey(key) || typeof holder !== "string" || holder === "") return null;
  if (!isCount(fence) || !isCount(leaseMs) || typeof more !== "object" || more === null) return null;
  const { retry, agent } = more as Pick<AttemptTerms, "retry" | "agent">;
  return { key, hold: { fence, holder }, terms: { leaseMs, retry, agent } };
}

function fieldsOf(token: string): readonly unknown[] | null {
  if (!token.startsWith(PREFIX)) return null;
  try {
    const fields: unknown = JSON.parse(Buffer.from(token.slice(PREFIX.length), "base64url").toString("utf8"));
    return Array.isArray(fields) ? fields : null;
  } catch {
    return null;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
