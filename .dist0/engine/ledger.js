/**
 * The store as the engine uses it: events go in, compare-and-swap goes out. Concurrent callers share round trips, a
 * store that is down is recognised, and a write whose reply was lost is recognised as our own.
 */
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../core/errors.js";
import { instantOf } from "../core/store.js";
import { transition } from "../core/transition.js";
import { Breaker } from "./breaker.js";
import { sleep } from "./clock.js";
import { Coalescer } from "./coalescer.js";
// Half of a busy process's callers: while one half is being written, the other half works (measured at 256 callers).
const MAX_WRITE_BATCH = 128;
// Reads are cheap and answered in memory order; smaller batches let the event loop breathe between them.
const MAX_READ_BATCH = 128;
const MAX_IN_FLIGHT = 2;
// A swap that loses this often is not unlucky, it is starved: better an error than an endless loop.
const MAX_SWAPS = 64;
const WRITE_TRIES = 3;
const WRITE_RETRY_MS = 25;
export class Ledger {
    store;
    #clock;
    #random;
    #breaker;
    #reads;
    #writes;
    #admitted = new Set();
    constructor({ store, clock, events, random }) {
        this.store = store;
        this.#clock = clock;
        this.#random = random;
        this.#breaker = new Breaker(clock, {
            failures: 5,
            openMs: 500,
            maxOpenMs: 30_000,
            onChange: (state, error) => {
                if (state === "open")
                    events.emit({ type: "store_down", store: store.name, error });
                if (state === "closed")
                    events.emit({ type: "store_up", store: store.name });
            },
        });
        const shared = { maxInFlight: MAX_IN_FLIGHT, splittable: (error) => !storeWide(error) };
        this.#reads = new Coalescer({
            ...shared,
            maxBatch: MAX_READ_BATCH,
            keyOf: (key) => key,
            flush: (keys) => this.#guarded(keys.length, () => store.read(keys)),
        });
        this.#writes = new Coalescer({
            ...shared,
            maxBatch: store.batchRows ?? MAX_WRITE_BATCH,
            keyOf: (put) => put.record.key,
            flush: (puts) => this.#guarded(puts.length, () => store.write(puts)),
        });
    }
    instant() {
        return instantOf(this.store);
    }
    /** Null: the store may guard such actions. Otherwise to be waited for; it rejects with what the store says against it. */
    admits(doubt) {
        return this.store.refuses === undefined || this.#admitted.has(doubt) ? null : this.#ask(doubt);
    }
    async #ask(doubt) {
        const refusal = await this.#guarded(1, async () => (await this.store.refuses?.({ doubt })) ?? null);
        if (refusal !== null)
            throw configError(`the ledger (${this.store.name}) does not take this action: ${refusal}`);
        this.#admitted.add(doubt);
    }
    read(key) {
        return this.#reads.submit(key);
    }
    /** Carries an event out on the record as it stands, however often others get in between. */
    apply(seen, source) {
        return this.#swap(seen, source, MAX_SWAPS);
    }
    #swap(stored, source, swapsLeft) {
        const event = typeof source === "function" ? source(stored?.record ?? null) : source;
        if (event === null)
            return Promise.resolve({ ok: false, refusal: "exists", stored });
        const change = transition(stored?.record ?? null, event, this.instant());
        if (!change.ok)
            return Promise.resolve({ ok: false, refusal: change.refusal, stored });
        const { record } = change;
        if (swapsLeft === 0)
            return Promise.reject(starved(record.key));
        // Plain `then`, not async/await: this runs twice in every call, and each async frame costs it a promise more.
        return this.#put({ record, expected: stored?.version ?? null }, 1, (result) => {
            if (result.ok)
                return { ok: true, stored: { record, version: result.version } };
            if (result.current !== null && sameWrite(result.current.record, record))
                return { ok: true, stored: result.current };
            return this.#swap(result.current, source, swapsLeft - 1);
        });
    }
    /** A write without an answer is written again: if the first one arrived, the conflict shows our own record. */
    #put(put, tries, then) {
        return this.#writes.submit(put).then(then, async (error) => {
            if (tries >= WRITE_TRIES || !storeWide(error) || this.#breaker.state !== "closed")
                throw error;
            await sleep(this.#clock, WRITE_RETRY_MS * tries * (0.5 + this.#random()));
            return this.#put(put, tries + 1, then);
        });
    }
    async #guarded(size, work) {
        if (!this.#breaker.allows())
            throw this.#unavailable(this.#breaker.lastError, "; it failed repeatedly and is given a pause");
        try {
            const answer = await work();
            this.#breaker.succeeded();
            return answer;
        }
        catch (error) {
            // An error the store did not name may be about one row: let the coalescer look for it before blaming the store.
            const named = isNevertwiceError(error) ? error : size > 1 ? null : this.#unavailable(error, "");
            if (storeWide(named))
                this.#breaker.failed(named);
            else
                this.#breaker.undecided();
            throw named ?? error;
        }
    }
    #unavailable(cause, more) {
        const why = isNevertwiceError(cause) ? cause.message : messageOf(cause);
        return new NevertwiceError("STORE_UNAVAILABLE", `the ledger (${this.store.name}) did not answer${more}: ${why} Nothing is run without it. Restore the store and call again, or let the action run unguarded with whenStoreDown: "run".`, { cause });
    }
}
function starved(key) {
    return new NevertwiceError("STORE_UNAVAILABLE", `the ledger changed ${MAX_SWAPS} times under one write. Nothing was run by this call; call again.`, { key });
}
function storeWide(error) {
    return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
}
/** The row in the store is the one we wrote: the reply was lost, not the write. */
function sameWrite(theirs, ours) {
    return (theirs.fence === ours.fence &&
        theirs.holder === ours.holder &&
        theirs.state === ours.state &&
        theirs.attempt === ours.attempt &&
        theirs.updatedAt === ours.updatedAt &&
        theirs.lease?.until === ours.lease?.until &&
        theirs.history.length === ours.history.length &&
        textOf(theirs.result) === textOf(ours.result));
}
function textOf(payload) {
    if (payload === null)
        return null;
    return "json" in payload ? payload.json : "sealed" in payload ? payload.sealed : payload.omitted;
}
//# sourceMappingURL=ledger.js.map