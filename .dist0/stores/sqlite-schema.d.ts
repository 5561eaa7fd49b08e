import type { SqliteHandle } from "./sqlite-driver.ts";
export declare const SCHEMA_VERSION: number;
export interface SchemaState {
    readonly version: number;
    readonly ledgerId: string;
}
export declare function hasSchema(db: SqliteHandle): boolean;
/** Null where there is no ledger yet. */
export declare function readSchema(db: SqliteHandle): SchemaState | null;
/** To be called inside a write transaction: several processes may start at once, one of them migrates. */
export declare function migrate(db: SqliteHandle, where: string): SchemaState;
export declare function refuseNewer(state: SchemaState | null, where: string): void;
