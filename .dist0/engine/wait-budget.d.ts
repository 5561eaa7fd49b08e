/** A caller's patience. */
import { type Clock } from "./clock.ts";
import type { Ledger } from "./ledger.ts";
/** How long a call may go on waiting; what would end after it is not begun. */
export declare class WaitBudget {
    #private;
    constructor(services: {
        readonly clock: Clock;
        readonly random: () => number;
    }, waitMs: number);
    pause(ms: number): Promise<boolean>;
    /**
     * Until the record may have changed: when the store says so, where it can, and after a while in any case. A little
     * longer each time, with jitter, so that a crowd of waiters spreads out.
     */
    change(ledger: Ledger, key: string): Promise<boolean>;
}
