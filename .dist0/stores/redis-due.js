import { checkLimit } from "../core/scan.js";
import { transition } from "../core/transition.js";
import { bucketOf } from "./redis-buckets.js";
import { actionEnd, keyOfEntry, rangeOf, tenantStart } from "./redis-index.js";
import { textOf } from "./redis-link.js";
import { DUE } from "./redis-scripts.js";
const ASIDE_MS = 2_000;
// Due work of other actions or tenants that may stand before ours in a bucket: a few milliseconds of the server's time.
const REACH = 10_000;
export class RedisDue {
    #link;
    #names;
    #rows;
    #upkeep;
    #instant;
    constructor(parts) {
        this.#link = parts.link;
        this.#names = parts.names;
        this.#rows = parts.rows;
        this.#upkeep = parts.upkeep;
        this.#instant = parts.instant;
    }
    async lease(query) {
        checkLimit(query.limit, "lease");
        if (query.actions?.length === 0)
            return [];
        const due = await this.#pick(query);
        if (due.length === 0)
            return [];
        const rows = await this.#rows.read(due.map(({ entry }) => keyOfEntry(entry)));
        const gone = due.filter((_, index) => rows[index] === null);
        if (gone.length > 0)
            await this.#upkeep.tidy(gone.map(({ entry }) => entry));
        return this.#claim(rows.filter((row) => row !== null), query);
    }
    async #claim(rows, { to, holder, leaseMs }) {
        const at = this.#instant();
        const puts = rows.flatMap(({ record, version }) => {
            const change = transition(record, { type: "claim", to, holder, leaseMs, newRound: false }, at);
            return change.ok && record.queued ? [{ record: change.record, expected: version }] : [];
        });
        const results = await this.#rows.write(puts);
        return puts.flatMap(({ record }, index) => {
            const result = results[index];
            if (result?.ok)
                return [{ record, version: result.version }];
            // Our own claim, if the client sent it twice: its holder is the one we named, and nobody else names it.
            const ours = result?.current?.record.holder === holder && result.current.record.fence === record.fence;
            return ours && result?.current ? [result.current] : [];
        });
    }
    async #pick(query) {
        const { indexes } = this.#names;
        if (!this.#link.wire.cluster)
            return this.#due(indexes, query, query.limit, ASIDE_MS);
        // Buckets lie on several servers: look first, then take from each as many as belong to the longest due of all.
        const seen = await Promise.all(indexes.map((index) => this.#due([index], query, query.limit, null)));
        const first = seen.flat().sort(byDue).slice(0, query.limit);
        const shares = new Map();
        for (const { bucket } of first)
            shares.set(bucket, (shares.get(bucket) ?? 0) + 1);
        const taken = await Promise.all([...shares].map(([bucket, share]) => this.#due([this.#names.index(bucket)], query, share, ASIDE_MS)));
        return taken.flat().sort(byDue);
    }
    async #due(indexes, query, limit, asideMs) {
        const actions = (query.actions ?? []).map(actionEnd);
        const numbers = [limit, asideMs ?? "", rangeOf("q").min, REACH].map(String);
        const found = await this.#link.run(DUE, indexes, [...numbers, tenantStart(query.tenant), ...actions]);
        const due = [];
        for (let i = 0; i + 1 < found.length; i += 2) {
            const entry = textOf(found[i]).slice(1);
            due.push({ entry, since: Number(found[i + 1]), bucket: bucketOf(keyOfEntry(entry)) });
        }
        return due;
    }
}
function byDue(a, b) {
    return a.since - b.since || (a.entry < b.entry ? -1 : 1);
}
//# sourceMappingURL=redis-due.js.map