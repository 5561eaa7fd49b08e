import { keyOfEntry } from "./redis-index.js";
// After a failure to subscribe: long enough not to make it worse.
const TRY_AGAIN_MS = 5_000;
export class RedisWatch {
    #wire;
    #names;
    #watchers = new Map();
    #ear = null;
    #notBefore = 0;
    #closed = false;
    constructor(wire, names) {
        this.#wire = wire;
        this.#names = names;
    }
    watch(key, wake) {
        this.#listen();
        const watchers = this.#watchers.get(key) ?? new Set();
        this.#watchers.set(key, watchers);
        watchers.add(wake);
        return () => {
            watchers.delete(wake);
            if (watchers.size === 0 && this.#watchers.get(key) === watchers)
                this.#watchers.delete(key);
        };
    }
    async close() {
        this.#closed = true;
        this.#watchers.clear();
        await (await this.#ear)?.close();
    }
    #listen() {
        if (this.#ear !== null || this.#closed || performance.now() < this.#notBefore)
            return;
        this.#ear = this.#subscribe().catch(() => {
            this.#ear = null;
            this.#notBefore = performance.now() + TRY_AGAIN_MS;
            return null;
        });
    }
    async #subscribe() {
        const wire = await this.#wire();
        const channels = wire.cluster ? this.#names.indexes.map((index) => `${index}:settled`) : [this.#names.channel];
        return wire.listen(channels, (message) => this.#heard(message));
    }
    #heard(message) {
        if (this.#watchers.size === 0)
            return;
        for (const entry of message.split("\n")) {
            for (const wake of this.#watchers.get(keyOfEntry(entry)) ?? [])
                wake();
        }
    }
}
//# sourceMappingURL=redis-watch.js.map