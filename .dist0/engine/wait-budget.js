/** A caller's patience. */
import { sleep } from "./clock.js";
const FIRST_POLL_MS = 5;
const LONGEST_POLL_MS = 250;
/** How long a call may go on waiting; what would end after it is not begun. */
export class WaitBudget {
    #clock;
    #random;
    #endsAt;
    #pollMs = FIRST_POLL_MS;
    constructor(services, waitMs) {
        this.#clock = services.clock;
        this.#random = services.random;
        this.#endsAt = services.clock.monotonic() + waitMs;
    }
    async pause(ms) {
        if (this.#clock.monotonic() + ms > this.#endsAt)
            return false;
        await sleep(this.#clock, Math.max(0, ms));
        return true;
    }
    /**
     * Until the record may have changed: when the store says so, where it can, and after a while in any case. A little
     * longer each time, with jitter, so that a crowd of waiters spreads out.
     */
    async change(ledger, key) {
        const left = this.#endsAt - this.#clock.monotonic();
        if (left <= 0)
            return false;
        const napMs = Math.min(left, this.#pollMs * (0.5 + this.#random()));
        this.#pollMs = Math.min(LONGEST_POLL_MS, this.#pollMs * 1.6);
        await new Promise((done) => {
            const timer = this.#clock.after(napMs, wake);
            const unwatch = ledger.store.watch?.(key, wake);
            function wake() {
                timer.cancel();
                unwatch?.();
                done();
            }
        });
        return true;
    }
}
//# sourceMappingURL=wait-budget.js.map