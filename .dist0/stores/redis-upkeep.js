/**
 * Counting, and tidying up behind Redis: a settled record goes by its own TTL, and leaves its index entry behind. A sweep
 * walks the entries and takes out those whose record is gone; a process that writes a lot walks a little by itself.
 */
import { STATES } from "../core/record.js";
import { checkLimit } from "../core/scan.js";
import { BUCKETS, bucketOf } from "./redis-buckets.js";
import { keyOfEntry, rangeOf } from "./redis-index.js";
import { textOf } from "./redis-link.js";
import { STATE_OF_LETTER } from "./redis-row.js";
import { COUNT, LAPSED, TIDY, WALK } from "./redis-scripts.js";
// Entries looked at by one script: about a millisecond of the server's time.
const WINDOW = 1_000;
// Where a quarter of a window or more was gone, the next one follows after half as many inserts as it has entries: the walk
// is faster than what it walks over grows. Where little was, it looks at one entry for every eight inserts.
const MUCH = 0.25;
const INSERTS_AFTER_MUCH = WINDOW / 2;
const INSERTS_AFTER_LITTLE = WINDOW * 8;
export class RedisUpkeep {
    #link;
    #names;
    /** Where the walk stands, by rank. */
    #ranks = new Array(BUCKETS).fill(0);
    #bucket = 0;
    #insertsLeft = INSERTS_AFTER_LITTLE;
    #walking = false;
    constructor(link, names) {
        this.#link = link;
        this.#names = names;
    }
    async sweep({ limit, thorough }) {
        checkLimit(limit, "sweep");
        let removed = 0;
        for (let bucket = 0; bucket < BUCKETS && removed < limit; bucket += 1) {
            if (thorough === true)
                this.#ranks[bucket] = 0;
            removed += await this.#sweepBucket(bucket, limit - removed, thorough === true);
        }
        return removed;
    }
    /** A background pass goes on while it finds much; a thorough one to the end. */
    async #sweepBucket(bucket, limit, thorough) {
        let removed = 0;
        while (removed < limit) {
            const window = await this.#walk(bucket, limit - removed);
            removed += window.removed;
            if (window.end || (!thorough && window.removed < window.seen * MUCH))
                break;
        }
        return removed;
    }
    async #walk(bucket, limit) {
        const from = this.#ranks[bucket];
        const range = [String(from), String(from + WINDOW - 1)];
        const [members] = (await this.#link.run(WALK, [this.#names.index(bucket)], range));
        const entries = members.map(textOf).filter((member) => member.startsWith("a"));
        const removed = await this.#tidySome(entries.map((member) => member.slice(1)), limit);
        const end = entries.length < WINDOW;
        // What the limit left is looked at again.
        if (removed < limit)
            this.#ranks[bucket] = end ? 0 : from + WINDOW - removed;
        return { removed, seen: entries.length, end };
    }
    /** Only the server knows which are gone, so no more are named at once than may still be removed. */
    async #tidySome(entries, limit) {
        let removed = 0;
        for (let from = 0; from < entries.length && removed < limit;) {
            const part = entries.slice(from, from + Math.min(limit - removed, WINDOW));
            removed += await this.tidy(part);
            from += part.length;
        }
        return removed;
    }
    /** Entries of any buckets. Asked with the records' keys, so that a record on its way to another node is not taken for gone. */
    async tidy(entries) {
        const buckets = new Map();
        for (const entry of entries) {
            const bucket = bucketOf(keyOfEntry(entry));
            const own = buckets.get(bucket);
            if (own === undefined)
                buckets.set(bucket, [entry]);
            else
                own.push(entry);
        }
        const gone = await Promise.all([...buckets].map(async ([bucket, own]) => {
            const keys = own.map((entry) => this.#names.record(keyOfEntry(entry)));
            const [count] = await this.#link.run(TIDY, [this.#names.index(bucket), ...keys], own);
            return Number(count);
        }));
        return gone.reduce((sum, count) => sum + count, 0);
    }
    /** Told of every record begun here; now and then it pays for them with a window of the walk, in the background. */
    inserted(count) {
        this.#insertsLeft -= count;
        if (this.#insertsLeft > 0 || this.#walking)
            return;
        this.#walking = true;
        void this.#walkOn().then((much) => {
            this.#insertsLeft = much ? INSERTS_AFTER_MUCH : INSERTS_AFTER_LITTLE;
            this.#walking = false;
        });
    }
    /** Stays in a bucket while much of it is gone. */
    async #walkOn() {
        try {
            const { removed, seen } = await this.#walk(this.#bucket, WINDOW);
            const much = removed > 0 && removed >= seen * MUCH;
            if (!much)
                this.#bucket = (this.#bucket + 1) % BUCKETS;
            return much;
        }
        catch {
            // It is in nobody's way: what this window left is found the next time round.
            return false;
        }
    }
    async stats() {
        const actions = new Map();
        const states = noStates();
        const oldest = {};
        const lapsed = await Promise.all(this.#names.indexes.map(async (index) => {
            for await (const { action, state, count, since } of this.#counts(index)) {
                const one = actions.get(action) ?? { total: 0, states: noStates() };
                actions.set(action, one);
                one.total += count;
                one.states[state] += count;
                states[state] += count;
                if (since !== null)
                    oldest[state] = Math.min(since, oldest[state] ?? since);
            }
            return Number((await this.#link.run(LAPSED, [index], [String(rangeOf("o").min)]))[0]);
        }));
        const byAction = [...actions].map(([action, one]) => ({ action, ...one }));
        return {
            total: STATES.reduce((sum, state) => sum + states[state], 0),
            states,
            actions: byAction.sort((a, b) => b.total - a.total),
            lapsed: lapsed.reduce((sum, count) => sum + count, 0),
            oldestPendingAt: oldest.pending ?? null,
            oldestUnknownAt: oldest.unknown ?? null,
        };
    }
    async *#counts(index) {
        for (let from = 0;; from += WINDOW) {
            const range = [String(from), String(from + WINDOW - 1)];
            const [seen, ...counts] = await this.#link.run(COUNT, [index], range);
            for (let i = 0; i + 2 < counts.length; i += 3) {
                const about = textOf(counts[i]);
                const [, action] = JSON.parse(about.slice(1));
                const since = textOf(counts[i + 2]);
                yield {
                    action,
                    state: STATE_OF_LETTER.get(about.charAt(0)),
                    count: Number(counts[i + 1]),
                    since: since === "" ? null : Number(since),
                };
            }
            if (Number(seen) < WINDOW)
                return;
        }
    }
}
function noStates() {
    return Object.fromEntries(STATES.map((state) => [state, 0]));
}
//# sourceMappingURL=redis-upkeep.js.map