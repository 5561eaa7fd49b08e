import { NevertwiceError } from "../core/errors.ts";
import { type SqliteDriver, type SqliteHandle } from "./sqlite-driver.ts";
import { SqliteLedger } from "./sqlite-ledger.ts";
export interface OpenedFile {
    readonly db: SqliteHandle;
    readonly ledger: SqliteLedger;
    /** The file's identity on disk, to notice when it is removed or replaced under us. */
    readonly inode: string;
}
export interface OpenOptions {
    readonly path: string;
    readonly driver: SqliteDriver;
    /** How long a lock of another process is waited for while opening. */
    readonly busyMs: number;
    /** The worker thread opens what the main thread has checked already. */
    readonly check: boolean;
    /** Pages in the write-ahead log at which this connection checkpoints; 0: never, somebody else does. */
    readonly autoCheckpoint: number;
}
export declare function openFile(options: OpenOptions): OpenedFile;
export declare function firstValue(db: SqliteHandle, pragma: string): unknown;
export declare function inodeOf(path: string): string | null;
export declare function checkpointQuietly(db: SqliteHandle): void;
export declare function closeQuietly(db: SqliteHandle): void;
export declare function storeError(error: unknown, path: string): NevertwiceError;
