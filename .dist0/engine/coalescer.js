/**
 * Callers of the same tick share one round trip and one commit. A lone caller pays exactly one round trip: no timer is
 * held to wait for company. A batch that fails for the sake of one row is split, so that its neighbours succeed.
 */
const LONGEST_WITHOUT_TURN_MS = 2;
export class Coalescer {
    #options;
    #waiting = [];
    #inFlight = 0;
    #scheduled = false;
    #alone = true;
    #turnedAt = 0;
    constructor(options) {
        this.#options = options;
    }
    submit(request) {
        return new Promise((resolve, reject) => {
            this.#waiting.push({ request, key: this.#options.keyOf(request), resolve, reject });
            this.#schedule();
        });
    }
    #schedule() {
        if (this.#scheduled || this.#waiting.length === 0 || this.#inFlight >= this.#options.maxInFlight)
            return;
        this.#scheduled = true;
        // In company: setImmediate, so that every promise callback of this tick gets to add its request first. Alone (the
        // last batch was one request): at once, since a turn of the event loop would cost a lone caller more than it saves.
        // But a lone caller in a tight loop must not keep the event loop from turning: timers and sockets get theirs.
        if (this.#alone && this.#inFlight === 0 && performance.now() - this.#turnedAt < LONGEST_WITHOUT_TURN_MS) {
            queueMicrotask(() => this.#flush());
            return;
        }
        setImmediate(() => {
            this.#turnedAt = performance.now();
            this.#flush();
        });
    }
    #flush() {
        this.#scheduled = false;
        if (this.#inFlight >= this.#options.maxInFlight)
            return;
        const batch = this.#nextBatch();
        this.#alone = batch.length === 1 && this.#waiting.length === 0;
        void this.#send(batch);
    }
    /** Sorted by key (so that no two batches lock rows in opposite order); a key appears once in a batch. */
    #nextBatch() {
        const { maxBatch } = this.#options;
        const batch = [];
        const later = [];
        const keys = new Set();
        for (const one of this.#waiting) {
            if (batch.length >= maxBatch || keys.has(one.key))
                later.push(one);
            else {
                keys.add(one.key);
                batch.push(one);
            }
        }
        this.#waiting = later;
        return batch.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    }
    async #send(batch) {
        this.#inFlight += 1;
        this.#schedule();
        try {
            await this.#settle(batch);
        }
        finally {
            this.#inFlight -= 1;
            this.#schedule();
        }
    }
    async #settle(batch) {
        try {
            const responses = await this.#options.flush(batch.map((one) => one.request));
            for (let i = 0; i < batch.length; i += 1)
                batch[i].resolve(responses[i]);
        }
        catch (error) {
            if (batch.length === 1 || !this.#options.splittable(error)) {
                for (const one of batch)
                    one.reject(error);
                return;
            }
            const middle = batch.length >> 1;
            await this.#settle(batch.slice(0, middle));
            await this.#settle(batch.slice(middle));
        }
    }
}
//# sourceMappingURL=coalescer.js.map