import { toStoredError } from "../core/stored-error.js";
import { leaseLeftMs, standingOf } from "./standing.js";
export function recordJson(record, at) {
    const { status, lapsed, expired } = standingOf(record, at);
    return {
        key: record.key,
        action: record.action,
        version: record.version,
        tenant: record.tenant,
        scope: record.scope,
        state: record.state,
        status,
        lapsed,
        expired,
        attempt: record.attempt,
        queued: record.queued,
        createdAt: record.createdAt,
        updatedAt: record.updatedAt,
        dueAt: record.dueAt,
        doubtSince: record.doubtSince,
        why: record.why,
        settledAt: record.settledAt,
        expiresAt: record.expiresAt,
        final: record.final,
        error: record.error,
    };
}
export function fullRecordJson(record, at) {
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
        history: record.history,
    };
}
/** What was stored, or why it is not here. */
function payloadJson(payload) {
    if (payload === null)
        return null;
    if ("sealed" in payload)
        return { sealed: true };
    if ("omitted" in payload)
        return { omitted: payload.omitted };
    return { value: JSON.parse(payload.json) };
}
export function outcomeJson(outcome) {
    return outcome.status === "failed" ? { ...outcome, error: toStoredError(outcome.error) } : outcome;
}
//# sourceMappingURL=record-json.js.map