import type { Stored } from "../core/store.ts";
export declare class ReplayCache {
    #private;
    get(key: string, now: number): Stored | null;
    put(stored: Stored): void;
}
