/**
 * Listing. What is indexed by creation is merged until the page is full; what is open (claimed, sent) is indexed by its lease
 * and sorted here: there is only as much of it as is under way.
 */
import { leaseAlive } from "../core/record.js";
import { checkLimit, decodeCursor, encodeCursor } from "../core/scan.js";
import { TYPE_OF_STATE } from "./redis-index.js";
import { beyond, byCreation, IndexReader, Merge } from "./redis-merge.js";
const READ_AT_ONCE = 500;
// After a crash of everything a sweep deals with this many at once; the others come when these are dealt with.
const MOST_LAPSED = 10_000;
export class RedisPages {
    #link;
    #names;
    #rows;
    constructor(link, names, rows) {
        this.#link = link;
        this.#names = names;
        this.#rows = rows;
    }
    async list(query, at) {
        checkLimit(query.limit, "list");
        const after = query.cursor === undefined ? null : decodeCursor(query.cursor);
        const types = typesFor(query);
        const found = types.includes("o")
            ? await this.#sorted(types, query, after, at)
            : await this.#merged(types, query, after, at);
        const items = found.slice(0, query.limit);
        const last = items.at(-1);
        return { items, cursor: found.length > items.length && last ? encodeCursor(last.record) : null };
    }
    /** All of it, sorted: for what is indexed by its lease. Of what has lapsed, those first whose lease ended first. */
    async #sorted(types, query, after, at) {
        const merge = new Merge(new IndexReader(this.#link, this.#names, query), types, 1, null);
        const lapsed = query.lapsed === true;
        const sign = query.order === "oldest" ? 1 : -1;
        const rows = [];
        for (let looked = 0; !lapsed || looked < MOST_LAPSED; looked += READ_AT_ONCE) {
            const next = await merge.next(READ_AT_ONCE);
            const keys = next.filter(({ createdAt: until }) => !lapsed || until <= at.now).map(({ key }) => key);
            for (const row of await this.#rows.read(keys)) {
                if (row !== null && fits(row.record, query, at) && beyond(row.record, after, sign))
                    rows.push(row);
            }
            if (keys.length < READ_AT_ONCE)
                break;
        }
        return rows.sort((a, b) => sign * byCreation(a.record, b.record));
    }
    /** In the order of creation, until there is one more than the page takes. */
    async #merged(types, query, after, at) {
        const reader = new IndexReader(this.#link, this.#names, query);
        const merge = new Merge(reader, types, query.order === "oldest" ? 1 : -1, after);
        // A record that changes its state while we look may stand in two lists.
        const found = new Map();
        while (found.size <= query.limit) {
            const next = await merge.next(Math.min(query.limit + 1, READ_AT_ONCE));
            if (next.length === 0)
                break;
            for (const row of await this.#rows.read(next.map(({ key }) => key))) {
                // Null: it expired, and its entry waits to be tidied up.
                if (row !== null && fits(row.record, query, at) && !found.has(row.record.key))
                    found.set(row.record.key, row);
            }
        }
        return [...found.values()];
    }
}
/** The smallest indexes that hold everything the query may want. */
function typesFor({ states, lapsed }) {
    if (lapsed === true)
        return ["o"];
    if (states === undefined)
        return ["a"];
    const types = new Set(states.map((state) => TYPE_OF_STATE[state]));
    return types.has(null) ? ["a"] : [...types];
}
/** The index has filtered by what never changes; the state may have changed since it was read. */
function fits(record, query, at) {
    if (query.states !== undefined && !query.states.includes(record.state))
        return false;
    return query.lapsed !== true || (TYPE_OF_STATE[record.state] === "o" && !leaseAlive(record, at));
}
//# sourceMappingURL=redis-pages.js.map