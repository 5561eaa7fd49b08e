/** Callers of one process with one key: the first runs, the others wait for it without asking the store. */
import { toFingerprint } from "../core/fingerprint.js";
export class Flight {
    #print;
    promise;
    constructor(print, promise) {
        this.#print = print;
        this.promise = promise;
    }
    fingerprint() {
        return toFingerprint(this.#print);
    }
    /** The flight's outcome, or null when it is not over within `waitMs`. */
    join(clock, waitMs) {
        return new Promise((resolve, reject) => {
            const timer = clock.after(waitMs, () => resolve(null));
            this.promise.then(resolve, reject).finally(() => timer.cancel());
        });
    }
}
export class Flights {
    #flights = new Map();
    get(key) {
        return this.#flights.get(key);
    }
    start(key, print, work) {
        const promise = work();
        const flight = new Flight(print, promise);
        this.#flights.set(key, flight);
        const land = () => {
            if (this.#flights.get(key) === flight)
                this.#flights.delete(key);
        };
        // `then` twice, not `finally`, which costs every call two promises more. First in line: gone before anybody hears.
        promise.then(land, land);
        return promise;
    }
    async idle() {
        while (this.#flights.size > 0) {
            await Promise.allSettled([...this.#flights.values()].map((flight) => flight.promise));
        }
    }
}
//# sourceMappingURL=flights.js.map