import type { TransactionalStore } from "../core/store.ts";
import { type PostgresStoreOptions } from "./postgres-options.ts";
export type { PgClient, PgPool, PostgresJs } from "./postgres-driver.ts";
export type { PostgresStoreOptions } from "./postgres-options.ts";
export declare function postgresStore(options: PostgresStoreOptions): TransactionalStore<unknown>;
