import type { Connection } from "./postgres-connection.ts";
export declare function savepoint<T>(tx: object, connection: Connection, work: () => Promise<T>): Promise<T>;
