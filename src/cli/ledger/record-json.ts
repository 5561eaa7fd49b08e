/** Records and outcomes as --json shows them. Times are epoch ms, as in the program's own outcomes. */
import { isTooDeep } from "../../core/foreign-json.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";
import type { Instant, LedgerRecord, Payload } from "../../core/record.ts";
import { toStoredError } from "../../core/stored-error.ts";
import { leaseLeftMs, standingOf } from "./standing.ts";

export function recordJson(record: LedgerRecord, at: Instant) {
  const { status, lapsed, expired } = standingOf(record, at);
  return {
    key: record.key,
    action: record.action,
    version: record.version,
    tenant: record.tenant,
    scope: record.scope,
    agent: record.agent,
    state: record.state,
    status,
    lapsed,
    expired,
    attempt: record.attempt,
    queued: record.queued,
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    dueAt: record.dueAt,
    givesUpAt: record.terms?.givesUpAt ?? null,
    doubtSince: record.doubtSince,
    why: record.why,
    settledAt: record.settledAt,
    expiresAt: record.expiresAt,
    final: record.final,
    providerId: record.providerId,
    error: record.error,
  };
}

export function fullRecordJson(record: LedgerRecord, at: Instant) {
  return {
    ...recordJson(record, at),
    fence: record.fence,
    tries: record.tries,
    holder: record.holder,
    leaseLeftMs: leaseLeftMs(record, at),
    firstSentAt: record.firstSentAt,
    lastSentAt: record.lastSentAt,
    doubted: record.doubted,
    keepMs: record.keepMs,
    input: payloadJson(record.input),
    draft: payloadJson(record.draft),
    result: payloadJson(record.result),
    history: record.history.map(({ replaced: _digests, ...entry }) => entry),
  };
}

/** What was stored, or why it is not here. */
function payloadJson(payload: Payload | null) {
  if (payload === null) return null;
  if ("sealed" in payload) return { sealed: true };
  if ("omitted" in payload) return { omitted: payload.omitted };
  // A value this deep could be read, but not written out again.
  if (isTooDeep(payload.json)) return { omitted: "it is nested too deeply to be shown" };
  return { value: JSON.parse(payload.json) as unknown };
}

export function outcomeJson(outcome: Outcome<unknown> | Absent) {
  return outcome.status === "failed" ? { ...outcome, error: toStoredError(outcome.error) } : outcome;
}
