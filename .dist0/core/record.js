/**
 * The words, one meaning each:
 *
 * action   a named kind of side effect, and how to key, run and settle it
 * intent   one thing an agent means to do
 * key      the digest that names an intent
 * record   the ledger's row for an intent
 * attempt  one numbered try
 * fence    grows by one at each claim; a write with an old fence is refused
 * holder   random id of the claimer, so that it knows its own claim when a reply was lost
 * lease    how long a holder may act without a heartbeat
 * doubt    sent, no answer
 * scope    a run, session or thread id
 */
export const STATES = ["pending", "claimed", "sent", "confirmed", "failed", "unknown"];
export const HISTORY_LIMIT = 30;
export function leaseAlive(record, at) {
    return record.lease !== null && record.lease.epoch === at.epoch && record.lease.until > at.steady;
}
/** Past `keep`: the record no longer guards its key, whether or not a sweep has removed it yet. */
export function expired(record, now) {
    return record.expiresAt !== null && record.expiresAt <= now;
}
/**
 * How long ago, at least and at most. The wall clock may have been set, the steady one may have slept with the machine;
 * who waits for a span to pass uses `least`, who must act before it passes uses `most`.
 */
export function elapsed(since, mark, at) {
    const wall = at.now - since;
    const steady = mark !== null && mark.epoch === at.epoch ? at.steady - mark.at : wall;
    return { least: Math.min(wall, steady), most: Math.max(wall, steady) };
}
/** When the record began to want attention: due work, doubts, dead letters. A plain claim and confirm never set it. */
export function attentionAt(record) {
    switch (record.state) {
        case "pending":
            return record.dueAt;
        case "unknown":
            return record.doubtSince;
        case "failed":
            return record.settledAt;
        default:
            return null;
    }
}
//# sourceMappingURL=record.js.map