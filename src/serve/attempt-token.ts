/**
 * The name of an attempt for whoever makes it outside: the record's key, the fence and the holder of the claim, and the
 * terms on which it is settled. The service keeps none of this, so that an attempt outlives a restart of the service.
 */
import { NevertwiceError } from "../core/errors.ts";
import { isKey } from "../core/key.ts";
import type { Policy } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Hold } from "../core/transition.ts";

/** What settling and heartbeats need of the claim's policy. */
export type AttemptTerms = Pick<Policy, "leaseMs" | "attempts" | "backoffMs" | "maxBackoffMs">;

export interface AttemptName {
  readonly key: string;
  readonly hold: Hold;
  readonly terms: AttemptTerms;
}

const PREFIX = "nta1_";
const LONGEST = 1_024;

export function tokenOf({ key, fence, holder }: LedgerRecord, terms: AttemptTerms): string {
  const { leaseMs, attempts, backoffMs, maxBackoffMs } = terms;
  const fields = [key, fence, holder, leaseMs, attempts, backoffMs, maxBackoffMs];
  return PREFIX + Buffer.from(JSON.stringify(fields)).toString("base64url");
}

export function attemptOf(token: string): AttemptName {
  const fields = fieldsOf(token);
  if (fields === null) {
    throw new NevertwiceError(
      "INVALID_INPUT",
      `the token names no attempt. Hand back the token of a claim or a take as it came: it begins with ${PREFIX}.`,
    );
  }
  const [key, fence, holder, leaseMs, attempts, backoffMs, maxBackoffMs] = fields;
  return { key, hold: { fence, holder }, terms: { leaseMs, attempts, backoffMs, maxBackoffMs } };
}

type Fields = readonly [string, number, string, number, number, number, number];

function fieldsOf(token: string): Fields | null {
  if (!token.startsWith(PREFIX) || token.length > LONGEST) return null;
  let fields: unknown;
  try {
    fields = JSON.parse(Buffer.from(token.slice(PREFIX.length), "base64url").toString("utf8"));
  } catch {
    return null;
  }
  if (!Array.isArray(fields) || fields.length !== 7) return null;
  const [key, fence, holder, ...numbers] = fields as unknown[];
  if (typeof key !== "string" || !isKey(key) || typeof holder !== "string" || holder === "") return null;
  return [fence, ...numbers].every(isCount) ? (fields as unknown as Fields) : null;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
