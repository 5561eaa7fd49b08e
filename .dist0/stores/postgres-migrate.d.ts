import type { Observation } from "./postgres-clock.ts";
import type { Connection, Driver } from "./postgres-connection.ts";
import { type SchemaState } from "./postgres-schema.ts";
export interface Found {
    /** Null: there is no ledger yet. */
    readonly state: SchemaState | null;
    readonly rls: boolean;
    readonly standby: boolean;
    readonly clock: Observation;
}
export declare const CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000)::text";
/** One statement that fails on nothing: what is there, and what time it is there. */
export declare function look(connection: Connection, schema: string): Promise<Found>;
export interface MigrateOptions {
    readonly schema: string;
    readonly rls: boolean;
    /** For messages. */
    readonly where: string;
}
/** What `migrate` would run now; empty: the schema is up to date. */
export declare function pending({ state, rls }: Found, options: MigrateOptions): string[];
/** All of it or nothing; who comes second finds it done. */
export declare function migrate(driver: Driver, options: MigrateOptions): Promise<readonly string[]>;
/** The schema as this store is to use it: migrated where it may, or an error that says who has to. */
export declare function ready(driver: Driver, mode: "auto" | "manual", options: MigrateOptions): Promise<Found>;
