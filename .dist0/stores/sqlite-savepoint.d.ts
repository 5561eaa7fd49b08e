import type { SqliteHandle } from "./sqlite-driver.ts";
export declare function savepoint<T>(tx: SqliteHandle, work: () => Promise<T>): Promise<T>;
