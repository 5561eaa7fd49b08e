export class Breaker {
    #clock;
    #options;
    #state = "closed";
    #failures = 0;
    #openMs;
    #opensAgainAt = 0;
    #lastError;
    constructor(clock, options) {
        this.#clock = clock;
        this.#options = options;
        this.#openMs = options.openMs;
    }
    get state() {
        return this.#state;
    }
    get lastError() {
        return this.#lastError;
    }
    /** False: do not even try. In the half-open state only the caller that turned it half-open is let through. */
    allows() {
        if (this.#state === "closed")
            return true;
        if (this.#state === "half-open" || this.#clock.monotonic() < this.#opensAgainAt)
            return false;
        this.#change("half-open");
        return true;
    }
    succeeded() {
        this.#failures = 0;
        if (this.#state === "closed")
            return;
        this.#openMs = this.#options.openMs;
        this.#change("closed");
    }
    failed(error) {
        this.#lastError = error;
        this.#failures += 1;
        if (this.#state === "half-open")
            this.#openMs = Math.min(this.#openMs * 2, this.#options.maxOpenMs);
        else if (this.#state === "open" || this.#failures < this.#options.failures)
            return;
        this.#opensAgainAt = this.#clock.monotonic() + this.#openMs;
        this.#change("open");
    }
    /** The trial ended without a verdict on the store (one bad row, a setting): the next caller is the trial. */
    undecided() {
        if (this.#state !== "half-open")
            return;
        this.#state = "open";
        this.#opensAgainAt = this.#clock.monotonic();
    }
    #change(state) {
        this.#state = state;
        this.#options.onChange?.(state, this.#lastError);
    }
}
//# sourceMappingURL=breaker.js.map