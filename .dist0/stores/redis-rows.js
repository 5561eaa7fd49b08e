/** Reading and swapping rows: batches cut by slot, sent side by side, put together again in the order asked. */
import { isNevertwiceError } from "../core/errors.js";
import { bucketOf } from "./redis-buckets.js";
import { isPassing, redisError } from "./redis-errors.js";
import { entryOf, queueScore, scoreOf, stateScore } from "./redis-index.js";
import { textOf } from "./redis-link.js";
import { decodeRow, encodeRow, versionText } from "./redis-row.js";
import { READ, WRITE } from "./redis-scripts.js";
// A script's arguments go through Lua's stack, which ends at 8000: three pairs of index members a row.
const ROWS_A_SCRIPT = 500;
export class RedisRows {
    #link;
    #names;
    #now;
    constructor(link, names, now) {
        this.#link = link;
        this.#names = names;
        this.#now = now;
    }
    async read(keys) {
        const found = new Array(keys.length).fill(null);
        const read = async (group) => {
            const [rows] = (await this.#readGroup(group));
            for (const [index, { item, at }] of group.entries())
                found[at] = this.#decode(item, rows[index]);
        };
        await Promise.all(this.#groups(keys, (key) => key).map(read));
        return found;
    }
    async write(puts) {
        const results = new Array(puts.length);
        const writes = puts.map((put) => ({ put, version: this.#nextVersion(put) }));
        const write = async (group) => {
            const answers = await this.#writeGroup(group);
            for (const [index, { item, at }] of group.entries())
                results[at] = this.#result(item, answers[index]);
        };
        await Promise.all(this.#groups(writes, ({ put }) => put.record.key).map(write));
        return results;
    }
    /** A first version that no earlier row of this key can have had, also after it expired: time in ms, times 4096, plus chance. */
    #nextVersion({ expected }) {
        return expected === null ? this.#now() * 4_096 + Math.floor(Math.random() * 4_096) : expected + 1;
    }
    /** A single server takes all buckets in one script; a cluster one bucket a script. Rows of a bucket stand together. */
    #groups(items, keyOf) {
        const buckets = [];
        for (const [at, item] of items.entries()) {
            const bucket = bucketOf(keyOf(item));
            const placed = buckets[bucket];
            if (placed === undefined)
                buckets[bucket] = [{ item, bucket, at }];
            else
                placed.push({ item, bucket, at });
        }
        const filled = buckets.filter((bucket) => bucket !== undefined);
        const groups = this.#link.wire.cluster || filled.length === 0 ? filled : [filled.flat()];
        return groups.flatMap((group) => chunks(group, ROWS_A_SCRIPT));
    }
    async #readGroup(group) {
        const keys = group.map(({ item }) => this.#names.record(item));
        if (!this.#link.wire.cluster || keys.length === 1)
            return this.#link.run(READ, keys, []);
        return this.#unlessMoving(() => this.#link.runOnce(READ, keys, []), 
        // One key at a time can always be found, on the one node or on the other.
        async () => [
            (await Promise.all(keys.map((key) => this.#link.run(READ, [key], [])))).map(([row]) => row[0]),
        ]);
    }
    async #writeGroup(group) {
        const { keys, args } = this.#arguments(group);
        if (!this.#link.wire.cluster || group.length === 1)
            return this.#link.run(WRITE, keys, args);
        return this.#unlessMoving(() => this.#link.runOnce(WRITE, keys, args), 
        // A row waits for its slot alone, not for its neighbours' sake.
        async () => (await Promise.all(group.map((one) => this.#writeGroup([one])))).map(([answer]) => answer));
    }
    async #unlessMoving(work, apart) {
        try {
            return await work();
        }
        catch (error) {
            if (!isNevertwiceError(error) && isPassing(error))
                return apart();
            throw redisError(error, this.#link.where);
        }
    }
    #arguments(group) {
        const keys = [];
        const counts = [];
        const rows = [];
        const records = [];
        for (let start = 0; start < group.length;) {
            const { bucket } = group[start];
            let end = start;
            for (; group[end]?.bucket === bucket; end += 1) {
                const { put, version } = group[end].item;
                records.push(`${this.#names.index(bucket)}:${put.record.key}`);
                rowArguments(rows, put, version);
            }
            keys.push(this.#names.index(bucket));
            counts.push(String(end - start));
            start = end;
        }
        // The empty channel stands for the bucket's own: a cluster must not shout every settle to all of its nodes.
        const channel = this.#link.wire.cluster ? "" : this.#names.channel;
        return { keys: keys.concat(records), args: [String(counts.length), channel].concat(counts, rows) };
    }
    #result({ put, version }, answer) {
        if (answer === 1)
            return { ok: true, version };
        return { ok: false, current: this.#decode(put.record.key, answer) };
    }
    #decode(key, row) {
        return row === null || row === undefined ? null : decodeRow(key, textOf(row));
    }
}
function rowArguments(into, { record, expected }, version) {
    const state = stateScore(record);
    const queue = queueScore(record);
    // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
    const created = expected === null || record.createdAt === record.updatedAt;
    into.push(expected === null ? "" : versionText(expected), encodeRow(record, version), entryOf(record), created ? String(scoreOf("a", record.createdAt)) : "", state === null ? "" : String(state), queue === null ? "" : String(queue), expiryOf(record));
}
/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }) {
    if ((state !== "confirmed" && state !== "failed") || expiresAt === null)
        return "";
    return String(Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER));
}
function chunks(items, size) {
    if (items.length <= size)
        return [items];
    return Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size));
}
//# sourceMappingURL=redis-rows.js.map