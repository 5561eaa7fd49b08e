import type { Instant } from "../core/record.ts";
import type { Store } from "../core/store.ts";
export interface MemoryStoreOptions {
    /** Tests pass their own; otherwise wall time and the process's monotonic clock. */
    readonly clock?: {
        instant(): Instant;
    };
}
export declare function memoryStore(options?: MemoryStoreOptions): Store;
