/** What doctor shows: which server this is, what a record survives on it, and what keeps its tables from being tidied. */
import type { Finding } from "../core/store.ts";
import type { Connection } from "./postgres-connection.ts";
import type { LeaseTables } from "./postgres-groups.ts";
import type { Settings } from "./postgres-options.ts";
export interface InspectOptions {
    readonly tables: LeaseTables;
    readonly settings: Settings;
    readonly listening: boolean;
}
export declare function inspectServer(run: Connection, options: InspectOptions): Promise<readonly Finding[]>;
