import type { Put, PutResult, Stored } from "../core/store.ts";
import type { ServerClock } from "./postgres-clock.ts";
import type { Connection } from "./postgres-connection.ts";
import { type Row } from "./postgres-row.ts";
export interface SwapOptions {
    readonly table: string;
    readonly name: string;
    readonly tenant: string | undefined;
    readonly clock: ServerClock;
}
export declare class Swaps {
    #private;
    constructor(options: SwapOptions);
    /** A row as it was just read: what the table holds of it need not be sent again. */
    seen(row: Row): Stored;
    read(run: Connection, keys: readonly string[]): Promise<(Stored | null)[]>;
    /** Each put on its own; a key that comes twice is put twice, one after the other. */
    write(run: Connection, puts: readonly Put[], inTransaction?: boolean): Promise<PutResult[]>;
}
