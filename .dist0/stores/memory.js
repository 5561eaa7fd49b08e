/** A ledger in a Map: for tests, and for dedupe inside one process. It survives nothing. */
import { NevertwiceError } from "../core/errors.js";
import { dueRows, pageOf, statsOf, sweepableRows } from "../core/scan.js";
import { transition } from "../core/transition.js";
export function memoryStore(options = {}) {
    return new MemoryStore(options.clock ?? processClock);
}
// The monotonic clock counts from the start of the process, so that moment names its epoch.
const EPOCH = `process-${performance.timeOrigin}`;
const processClock = {
    instant: () => ({ now: Date.now(), steady: performance.now(), epoch: EPOCH }),
};
class MemoryStore {
    name = "memory";
    traits = { hosts: "one", survives: "nothing", clock: "client", dueIndex: false };
    #rows = new Map();
    #clock;
    // One counter for all rows: a row that was swept and begun again must not meet a writer who holds its old version.
    #revision = 0;
    #closed = false;
    constructor(clock) {
        this.#clock = clock;
    }
    now() {
        return this.#clock.instant().now;
    }
    instant() {
        return this.#clock.instant();
    }
    async read(keys) {
        this.#refuseWhenClosed();
        return keys.map((key) => this.#rows.get(key) ?? null);
    }
    async write(puts) {
        this.#refuseWhenClosed();
        return puts.map((put) => this.#swap(put));
    }
    async lease(query) {
        this.#refuseWhenClosed();
        const at = this.#clock.instant();
        const { to, holder, leaseMs } = query;
        return dueRows([...this.#rows.values()], query, at).flatMap(({ record }) => {
            const change = transition(record, { type: "claim", to, holder, leaseMs, newRound: false }, at);
            return change.ok ? [this.#set(change.record)] : [];
        });
    }
    async list(query) {
        this.#refuseWhenClosed();
        return pageOf([...this.#rows.values()], query, this.#clock.instant());
    }
    async stats() {
        this.#refuseWhenClosed();
        return statsOf([...this.#rows.values()], this.#clock.instant());
    }
    async sweep(query) {
        this.#refuseWhenClosed();
        const gone = sweepableRows([...this.#rows.values()], query, this.now());
        for (const { record } of gone)
            this.#rows.delete(record.key);
        return gone.length;
    }
    async close() {
        this.#closed = true;
        this.#rows.clear();
    }
    #swap({ record, expected }) {
        const current = this.#rows.get(record.key) ?? null;
        if ((current?.version ?? null) !== expected)
            return { ok: false, current };
        return { ok: true, version: this.#set(record).version };
    }
    /** A frozen copy: whoever holds the record, before or after, can't change what the ledger says. */
    #set(record) {
        this.#revision += 1;
        const row = Object.freeze({ record: Object.freeze({ ...record }), version: this.#revision });
        this.#rows.set(record.key, row);
        return row;
    }
    #refuseWhenClosed() {
        if (!this.#closed)
            return;
        throw new NevertwiceError("STORE_UNAVAILABLE", "The memory ledger is closed. Open a new one with memoryStore(); what it held is gone.");
    }
}
//# sourceMappingURL=memory.js.map