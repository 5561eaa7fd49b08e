/**
 * The Redis store: many processes on many hosts, Redis 7 or Valkey, one server or a cluster. It is as safe as the server is
 * set up to be, and says so: a server that may forget what it acknowledged refuses actions that hold their doubts.
 */
import { NevertwiceError } from "../core/errors.js";
import { Names } from "./redis-buckets.js";
import { connectTo, wireOf } from "./redis-client.js";
import { ServerClock } from "./redis-clock.js";
import { RedisDue } from "./redis-due.js";
import { redisError } from "./redis-errors.js";
import { RedisLink } from "./redis-link.js";
import { readLocation } from "./redis-location.js";
import { RedisPages } from "./redis-pages.js";
import { RedisRows } from "./redis-rows.js";
import { READ } from "./redis-scripts.js";
import { askServer, findingsOf, holdRefusal, survivesOf } from "./redis-server.js";
import { RedisUpkeep } from "./redis-upkeep.js";
import { RedisWatch } from "./redis-watch.js";
// What a server says about itself is believed this long: somebody may turn eviction on while we run.
const FACTS_MS = 60_000;
export function redisStore(options) {
    return new RedisStore(readLocation(options));
}
class RedisStore {
    name;
    // Measured at 256 callers: larger batches make the server and the program wait for each other in turns.
    batchRows = 128;
    #options;
    #names;
    #clock = new ServerClock();
    #watch;
    #parts = null;
    #opening = null;
    #factsAt = 0;
    #facts = null;
    #closed = false;
    constructor(options) {
        this.#options = options;
        this.name = options.where;
        this.#names = new Names(options.prefix);
        this.#watch = new RedisWatch(async () => (await this.#open()).link.wire, this.#names);
    }
    get traits() {
        return { hosts: "many", survives: survivesOf(this.#facts), clock: "store", dueIndex: true };
    }
    now() {
        return this.#clock.now();
    }
    instant() {
        return this.#clock.instant();
    }
    async refuses({ doubt }) {
        const { link } = await this.#open();
        if (performance.now() - this.#factsAt > FACTS_MS)
            await this.#askAgain(link);
        return doubt === "hold" && !this.#options.allowUnsafe ? holdRefusal(this.#facts) : null;
    }
    async read(keys) {
        const { rows } = this.#parts ?? (await this.#open());
        this.#refuseWhenClosed();
        return keys.length === 0 ? [] : rows.read(keys);
    }
    async write(puts) {
        const { rows, upkeep } = this.#parts ?? (await this.#open());
        this.#refuseWhenClosed();
        if (puts.length === 0)
            return [];
        const results = await rows.write(puts);
        upkeep.inserted(puts.filter(({ expected }) => expected === null).length);
        return results;
    }
    async lease(query) {
        return (await this.#open()).due.lease(query);
    }
    async list(query) {
        const { pages } = await this.#open();
        return pages.list(query, this.instant());
    }
    async stats() {
        return (await this.#open()).upkeep.stats();
    }
    async sweep(query) {
        return (await this.#open()).upkeep.sweep(query);
    }
    watch(key, wake) {
        return this.#watch.watch(key, wake);
    }
    async inspect() {
        const { link } = await this.#open();
        const facts = await this.#askAgain(link);
        return findingsOf(facts, `${this.name}, by ${link.wire.driver}`, this.#options.allowUnsafe);
    }
    async close() {
        if (this.#closed)
            return;
        this.#closed = true;
        await this.#watch.close();
        const opened = await this.#opening?.catch(() => null);
        if (this.#options.client === null)
            await opened?.link.wire.end();
    }
    // ---- finding the server ----
    async #open() {
        this.#refuseWhenClosed();
        this.#opening ??= this.#connect().catch((error) => {
            // The next call tries anew.
            this.#opening = null;
            throw error;
        });
        this.#parts = await this.#opening;
        this.#refuseWhenClosed();
        return this.#parts;
    }
    async #connect() {
        const { client, url } = this.#options;
        const wire = client === null ? connectTo(url, "single") : wireOf(client);
        if (client !== null)
            return this.#build(wire);
        try {
            // A URL names one server; only the server knows whether it is part of a cluster.
            const info = String(await this.#linkOver(wire).ask("INFO", "cluster"));
            if (!info.includes("cluster_enabled:1"))
                return await this.#build(wire);
        }
        catch (error) {
            await wire.end();
            throw redisError(error, this.name);
        }
        await wire.end();
        return this.#build(connectTo(url, "cluster"));
    }
    async #build(wire) {
        const link = this.#linkOver(wire);
        await this.#askAgain(link);
        // So that the first claim is made by the server's clock already.
        await link.run(READ, [this.#names.record("")], []);
        const names = this.#names;
        const rows = new RedisRows(link, names, () => this.now());
        const upkeep = new RedisUpkeep(link, names);
        const due = new RedisDue({ link, names, rows, upkeep, instant: () => this.instant() });
        return { link, rows, upkeep, due, pages: new RedisPages(link, names, rows) };
    }
    #linkOver(wire) {
        return new RedisLink({ wire, where: this.name, clock: this.#clock, timeoutMs: this.#options.timeoutMs });
    }
    async #askAgain(link) {
        const facts = await askServer(link);
        this.#facts = facts;
        this.#factsAt = performance.now();
        return facts;
    }
    #refuseWhenClosed() {
        if (!this.#closed)
            return;
        throw new NevertwiceError("STORE_UNAVAILABLE", `the Redis ledger (${this.name}) is closed. Call before close(), or make a new nevertwice().`);
    }
}
//# sourceMappingURL=redis.js.map