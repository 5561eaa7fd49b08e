// Beyond this the oldest are dropped: they stay visible in the ledger, as `sent` and then as `unknown`.
const MAX_UNTOLD = 10_000;
const RETRY_MS = 1_000;
export class Untold {
    #ledger;
    #clock;
    #untold = [];
    #timer = null;
    constructor(ledger, clock) {
        this.#ledger = ledger;
        this.#clock = clock;
    }
    get size() {
        return this.#untold.length;
    }
    add(fact) {
        this.#untold.push(fact);
        if (this.#untold.length > MAX_UNTOLD)
            this.#untold.shift();
        this.#arm();
    }
    /** Tells what can be told now. */
    async tick() {
        const batch = this.#untold;
        this.#untold = [];
        await Promise.all(batch.map(async (fact) => {
            try {
                await this.#ledger.apply(await this.#ledger.read(fact.key), fact.event);
            }
            catch {
                this.#untold.push(fact);
            }
        }));
    }
    stop() {
        this.#timer?.cancel();
        this.#timer = null;
    }
    #arm() {
        if (this.#timer !== null)
            return;
        this.#timer = this.#clock.after(RETRY_MS, () => {
            this.#timer = null;
            void this.tick().then(() => {
                if (this.#untold.length > 0)
                    this.#arm();
            });
        }, true);
    }
}
//# sourceMappingURL=untold.js.map