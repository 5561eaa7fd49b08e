import { BUCKETS } from "./redis-buckets.js";
import { actionEnd, keyOfEntry, rangeOf, scoreOf, tenantStart, timeOf } from "./redis-index.js";
import { textOf } from "./redis-link.js";
import { RANGE } from "./redis-scripts.js";
// Entries looked at in a bucket at a time. Where the server picks out what is wanted it may look at more: 16 buckets at once
// cost it 5 ms.
const PART = 100;
const FILTERED_PART = 250;
function spansOf(type) {
    return Array.from({ length: BUCKETS }, (_, bucket) => ({ bucket, ...rangeOf(type), offset: 0 }));
}
export class IndexReader {
    #link;
    #names;
    #filter;
    #part;
    constructor(link, names, query) {
        this.#link = link;
        this.#names = names;
        this.#filter = [
            query.keyPrefix ?? "",
            query.scope === undefined ? "" : JSON.stringify(query.scope),
            tenantStart(query.tenant),
            actionEnd(query.action),
        ];
        this.#part = this.#filter.every((wanted) => wanted === "") ? PART : FILTERED_PART;
    }
    get part() {
        return this.#part;
    }
    async read(spans, sign) {
        const head = [sign === 1 ? "" : "REV", String(this.#part), ...this.#filter];
        const bounds = ({ min, max, offset }) => (sign === 1 ? [min, max, offset] : [max, min, offset]).map(String);
        const key = ({ bucket }) => this.#names.index(bucket);
        const run = (some) => this.#link.run(RANGE, some.map(key), [...head, ...some.flatMap(bounds)]).then((parts) => parts.map(partOf));
        if (!this.#link.wire.cluster)
            return run(spans);
        return (await Promise.all(spans.map((span) => run([span])))).flat();
    }
}
function partOf(answer) {
    const [seen, last, tail, ...members] = answer;
    const found = [];
    for (let i = 0; i + 1 < members.length; i += 2) {
        found.push({ key: keyOfEntry(textOf(members[i]).slice(1)), createdAt: timeOf(Number(members[i + 1])) });
    }
    return { seen: Number(seen), last: Number(last), tail: Number(tail), found };
}
/** Several spans merged by the time they are indexed by: creation, but for what is open the end of the lease. */
export class Merge {
    #reader;
    #sign;
    #after;
    #streams;
    constructor(reader, types, sign, after) {
        this.#reader = reader;
        this.#sign = sign;
        this.#after = after;
        this.#streams = types.flatMap((type) => {
            const from = after === null ? null : scoreOf(type, after.createdAt);
            return spansOf(type).map((span) => new Stream(from === null ? span : startingAt(span, from, sign, 0), sign));
        });
    }
    /** The next ones, up to `count`; fewer: there are no more. */
    async next(count) {
        const found = [];
        while (found.length < count) {
            await this.#refill();
            let first = null;
            for (const stream of this.#streams) {
                if (stream.head === null)
                    continue;
                if (first?.head == null || this.#sign * byCreation(stream.head, first.head) < 0)
                    first = stream;
            }
            if (first?.head == null)
                break;
            if (beyond(first.head, this.#after, this.#sign))
                found.push(first.head);
            first.pop();
        }
        return found;
    }
    /** Until every stream shows its next or has ended: only then is the first of them known. */
    async #refill() {
        for (;;) {
            const dry = this.#streams.filter((stream) => stream.dry);
            if (dry.length === 0)
                return;
            const parts = await this.#reader.read(dry.map(({ span }) => span), this.#sign);
            for (const [index, stream] of dry.entries())
                stream.fill(parts[index], this.#reader.part);
        }
    }
}
class Stream {
    #sign;
    #span;
    #buffer = [];
    #at = 0;
    #ended = false;
    constructor(span, sign) {
        this.#span = span;
        this.#sign = sign;
    }
    get span() {
        return this.#span;
    }
    get dry() {
        return !this.#ended && this.#at >= this.#buffer.length;
    }
    get head() {
        return this.#buffer[this.#at] ?? null;
    }
    pop() {
        this.#at += 1;
    }
    fill({ seen, last, tail, found }, asked) {
        this.#ended = seen < asked;
        this.#at = 0;
        this.#buffer = found;
        if (seen === 0)
            return;
        // The next part begins at the last score, behind the members that have it and were seen.
        const stayed = last === (this.#sign === 1 ? this.#span.min : this.#span.max);
        this.#span = startingAt(this.#span, last, this.#sign, stayed ? this.#span.offset + seen : tail);
    }
}
function startingAt(span, score, sign, offset) {
    return sign === 1 ? { ...span, min: score, offset } : { ...span, max: score, offset };
}
export function byCreation(a, b) {
    return a.createdAt - b.createdAt || (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);
}
export function beyond(position, after, sign) {
    return after === null || sign * byCreation(position, after) > 0;
}
//# sourceMappingURL=redis-merge.js.map