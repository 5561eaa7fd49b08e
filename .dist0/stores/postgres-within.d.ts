import type { TransactionView } from "../core/store.ts";
import type { ServerClock } from "./postgres-clock.ts";
import type { Connection } from "./postgres-connection.ts";
import type { Settings } from "./postgres-options.ts";
import type { Swaps } from "./postgres-swaps.ts";
export interface ViewOptions {
    readonly tx: object;
    readonly connection: Connection;
    readonly swaps: Swaps;
    readonly clock: ServerClock;
    readonly settings: Settings;
    /** Connections that were looked at once: each is on one database for as long as it lives. */
    readonly checked: WeakMap<object, Promise<void>>;
    /** The ledger's id where the store is open already, null where it is not. */
    readonly ledgerId: () => Promise<string | null>;
    readonly open: () => Promise<string>;
    readonly check: () => void;
}
export declare function transactionView(options: ViewOptions): TransactionView;
