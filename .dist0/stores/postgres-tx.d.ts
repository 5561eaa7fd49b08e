import type { Connection } from "./postgres-connection.ts";
/** What `tx` is, and how to run a statement in it. */
export declare function transactionConnection(tx: unknown): Connection;
export declare function noTransaction(): import("../core/errors.ts").NevertwiceError;
