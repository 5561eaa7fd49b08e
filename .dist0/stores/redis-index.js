import { REDIS_EPOCH } from "./redis-clock.js";
const ORDER = "aopufq";
// Epoch milliseconds have 13 digits; a type's range has 14, and the last range still counts in eighths of a millisecond.
const SPAN = 1e14;
const SEPARATOR = "\u001f";
export const TYPE_OF_STATE = {
    pending: "p",
    claimed: "o",
    sent: "o",
    confirmed: null,
    failed: "f",
    unknown: "u",
};
export function scoreOf(type, at) {
    return ORDER.indexOf(type) * SPAN + Math.min(Math.max(0, Math.floor(at)), SPAN - 1);
}
export function timeOf(score) {
    return score % SPAN;
}
export function rangeOf(type) {
    return { min: scoreOf(type, 0), max: scoreOf(type, SPAN) };
}
/**
 * What an index says about a record, besides its type: what a key fixes, so that lists are filtered without reading records.
 * The key, the scope as JSON (nothing where there is none), and tenant and action as JSON.
 */
export function entryOf({ key, tenant, action, scope }) {
    if (about.tenant !== tenant || about.action !== action || about.scope !== scope) {
        about = { tenant, action, scope, text: aboutText(tenant, action, scope) };
    }
    return key + about.text;
}
function aboutText(tenant, action, scope) {
    // JSON escapes control characters, so the separator stands nowhere but between the parts.
    return `${SEPARATOR}${scope === null ? "" : JSON.stringify(scope)}${SEPARATOR}${JSON.stringify([tenant, action])}`;
}
// The last one made: a batch is mostly of one tenant, action and run.
let about = { tenant: "", action: "", scope: null, text: aboutText("", "", null) };
export function keyOfEntry(entry) {
    return entry.slice(0, entry.indexOf(SEPARATOR));
}
/** Tenant and action as the scripts compare them: how that part of an entry begins, and how it ends. Empty: any. */
export function tenantStart(tenant) {
    return tenant === undefined ? "" : `[${JSON.stringify(tenant)},`;
}
export function actionEnd(action) {
    return action === undefined ? "" : `,${JSON.stringify(action)}]`;
}
/** Where the record stands among its like; null: a confirmed record is in no list but `a`. */
export function stateScore(record) {
    const type = TYPE_OF_STATE[record.state];
    if (type === null)
        return null;
    return scoreOf(type, type === "o" ? leaseEnd(record) : record.createdAt);
}
/** Work for a queue's workers: due, or claimed by one whose lease will be over then. */
export function queueScore(record) {
    if (!record.queued)
        return null;
    if (record.state === "pending")
        return scoreOf("q", record.dueAt ?? 0);
    return record.state === "claimed" ? scoreOf("q", leaseEnd(record)) : null;
}
/** A lease of another clock (a ledger moved from another store) is over. */
function leaseEnd({ lease }) {
    return lease === null || lease.epoch !== REDIS_EPOCH ? 0 : lease.until;
}
//# sourceMappingURL=redis-index.js.map