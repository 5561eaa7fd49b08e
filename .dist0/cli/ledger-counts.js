/** How much of what is in the ledger: the store's own count, or one tenant's, page by page. */
import { STATES } from "../core/record.js";
import { statsOf } from "../core/scan.js";
import { instantOf } from "../core/store.js";
const PAGE = 500;
export async function countLedger(store, tenant) {
    if (tenant === undefined)
        return store.stats();
    let counted = emptyStats();
    let cursor = null;
    do {
        const page = await store.list({
            tenant,
            limit: PAGE,
            ...(cursor !== null && { cursor }),
        });
        counted = added(counted, statsOf(page.items, instantOf(store)));
        cursor = page.cursor;
    } while (cursor !== null);
    return counted;
}
export function emptyStats() {
    return { total: 0, states: noStates(), actions: [], lapsed: 0, oldestPendingAt: null, oldestUnknownAt: null };
}
function noStates() {
    return Object.fromEntries(STATES.map((state) => [state, 0]));
}
function added(a, b) {
    const actions = new Map();
    for (const one of [...a.actions, ...b.actions]) {
        const before = actions.get(one.action);
        const states = before === undefined ? one.states : addedStates(before.states, one.states);
        actions.set(one.action, { action: one.action, total: (before?.total ?? 0) + one.total, states });
    }
    return {
        total: a.total + b.total,
        states: addedStates(a.states, b.states),
        actions: [...actions.values()],
        lapsed: a.lapsed + b.lapsed,
        oldestPendingAt: earlier(a.oldestPendingAt, b.oldestPendingAt),
        oldestUnknownAt: earlier(a.oldestUnknownAt, b.oldestUnknownAt),
    };
}
function addedStates(a, b) {
    return Object.fromEntries(STATES.map((state) => [state, a[state] + b[state]]));
}
function earlier(a, b) {
    return a === null ? b : b === null ? a : Math.min(a, b);
}
//# sourceMappingURL=ledger-counts.js.map