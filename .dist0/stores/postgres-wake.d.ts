import type { Driver } from "./postgres-connection.ts";
export declare class Wakes {
    #private;
    constructor(driver: Driver, ledgerId: string);
    /** Whether notifications arrive: known after the probe. */
    get active(): boolean;
    /** Whether anybody said lately that it waits. */
    get waitedFor(): boolean;
    start(): Promise<void>;
    watch(hex: string, wake: () => void): () => void;
    /** The record's holder let go of it, and that is committed. */
    moved(hex: string): void;
    stop(): Promise<void>;
}
