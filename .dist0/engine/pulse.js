/**
 * The life of one attempt: heartbeats that keep its lease, and its end at the timeout. All attempts of a process share
 * one timer; a short attempt costs two entries in a set and never sees it fire.
 */
import { NevertwiceError } from "../core/errors.js";
/** Wakes each pulse when it wants to be woken, with one timer for all. */
export class Heart {
    ledger;
    clock;
    #pulses = new Set();
    #timer = null;
    #firesAt = Number.POSITIVE_INFINITY;
    constructor(ledger, clock) {
        this.ledger = ledger;
        this.clock = clock;
    }
    add(pulse) {
        this.#pulses.add(pulse);
        this.wakeBy(pulse.wakeAt);
    }
    remove(pulse) {
        this.#pulses.delete(pulse);
        if (this.#pulses.size > 0)
            return;
        this.#timer?.cancel();
        this.#timer = null;
        this.#firesAt = Number.POSITIVE_INFINITY;
    }
    wakeBy(at) {
        if (at >= this.#firesAt)
            return;
        this.#timer?.cancel();
        this.#firesAt = at;
        // In the background: the user's own work keeps the process alive, a heartbeat alone must not.
        this.#timer = this.clock.after(at - this.clock.monotonic(), () => this.#fire(), true);
    }
    #fire() {
        this.#timer = null;
        this.#firesAt = Number.POSITIVE_INFINITY;
        const now = this.clock.monotonic();
        let next = Number.POSITIVE_INFINITY;
        for (const pulse of [...this.#pulses]) {
            if (pulse.wakeAt <= now)
                pulse.wake();
            if (this.#pulses.has(pulse))
                next = Math.min(next, pulse.wakeAt);
        }
        if (next !== Number.POSITIVE_INFINITY)
            this.wakeBy(next);
    }
}
export class Pulse {
    #heart;
    #leaseMs;
    // Made when somebody asks for the signal: most attempts never do, and a controller costs more than a claim's bookkeeping.
    #abort = null;
    #stored;
    #timeoutAt;
    #nextBeatAt;
    #interrupt = null;
    #interrupted = null;
    #ended = false;
    #beating = false;
    constructor(heart, options) {
        this.#heart = heart;
        this.#leaseMs = options.leaseMs;
        this.#stored = options.stored;
        const now = heart.clock.monotonic();
        this.#nextBeatAt = now + this.#leaseMs / 3;
        this.#timeoutAt = now + options.timeoutMs;
        heart.add(this);
    }
    get signal() {
        if (this.#abort === null) {
            this.#abort = new AbortController();
            if (this.#interrupted)
                this.#abort.abort(reasonFor(this.#interrupted, this.#stored.record.key));
        }
        return this.#abort.signal;
    }
    /** The record as this attempt last wrote it. */
    get stored() {
        return this.#stored;
    }
    /** The send mark is never forgotten again: a heartbeat from before it may have its answer after it. */
    set stored(stored) {
        if (this.#stored.record.state === "sent" && stored.record.state === "claimed")
            return;
        this.#stored = stored;
    }
    get hold() {
        return { fence: this.#stored.record.fence, holder: this.#stored.record.holder };
    }
    get wakeAt() {
        return Math.min(this.#nextBeatAt, this.#timeoutAt);
    }
    /** From now on the attempt may take this long. */
    limit(timeoutMs) {
        this.#timeoutAt = this.#heart.clock.monotonic() + timeoutMs;
        this.#heart.wakeBy(this.wakeAt);
    }
    /** The work's own end, or what cut it short, whichever comes first. The work goes on after an interruption: nobody can stop a byte that left. */
    race(work) {
        if (this.#interrupted)
            return Promise.resolve(this.#interrupted);
        return new Promise((resolve) => {
            this.#interrupt = resolve;
            work.then((value) => resolve({ kind: "returned", value }), (error) => resolve({ kind: "threw", error }));
        });
    }
    end() {
        this.#ended = true;
        this.#interrupt = null;
        this.#heart.remove(this);
    }
    /** Renews the lease now; false: it is gone, and nothing may be sent under it. */
    async renew() {
        const { ledger, clock } = this.#heart;
        const applied = await ledger.apply(this.#stored, { type: "heartbeat", hold: this.hold, leaseMs: this.#leaseMs });
        if (!applied.ok)
            return false;
        this.stored = applied.stored;
        this.#nextBeatAt = clock.monotonic() + this.#leaseMs / 3;
        return true;
    }
    wake() {
        const now = this.#heart.clock.monotonic();
        if (now >= this.#timeoutAt) {
            this.#cut({ kind: "timeout" });
            return;
        }
        // Set before the store is asked: one that hangs must disable neither the timeout nor the end of the lease.
        this.#nextBeatAt = now + this.#leaseMs / 3;
        if (!this.#beating)
            void this.#beat();
        else if (this.#leaseOver())
            this.#cut({ kind: "lease-lost" });
    }
    async #beat() {
        this.#beating = true;
        try {
            if (!(await this.renew()))
                this.#cut({ kind: "lease-lost" });
        }
        catch {
            // The store did not answer. While the lease lives the next beat tries again; one that has run out by then is lost.
            if (this.#leaseOver())
                this.#cut({ kind: "lease-lost" });
        }
        finally {
            this.#beating = false;
        }
    }
    #leaseOver() {
        const { lease } = this.#stored.record;
        const at = this.#heart.ledger.instant();
        return lease === null || lease.epoch !== at.epoch || lease.until <= at.steady;
    }
    #cut(why) {
        if (this.#ended)
            return;
        this.#interrupted = why;
        const interrupt = this.#interrupt;
        this.end();
        this.#abort?.abort(reasonFor(why, this.#stored.record.key));
        interrupt?.(why);
    }
}
function reasonFor(why, key) {
    if (why.kind === "timeout")
        return new DOMException("The attempt ran into its timeout.", "TimeoutError");
    return new NevertwiceError("LEASE_LOST", `the lease of this attempt is over (${key}): stop the work. What it already sent is now in doubt; what it has not sent must not be.`, { key });
}
//# sourceMappingURL=pulse.js.map