import type { LedgerRecord, Payload } from "../core/record.ts";
import type { Sealer } from "../core/seal.ts";
export interface PayloadLimits {
    readonly inputBytes: number;
    readonly resultBytes: number;
}
export declare const DEFAULT_LIMITS: PayloadLimits;
type Field = "input" | "draft" | "result";
type Bound = {
    readonly tenant: string;
    readonly key: string;
    readonly fence: number;
};
export declare class Payloads {
    #private;
    constructor(sealer: Sealer | null);
    /** `undefined` is stored as nothing at all, and comes back as `undefined`. */
    store(value: unknown, field: Field, maxBytes: number, bound: Bound): Payload | null;
    load(record: LedgerRecord, field: Field): {
        value: unknown;
        omitted?: string;
    };
}
/** Results that turn into "{}" on the way through JSON; the caller is better warned than surprised at the first replay. */
export declare function losesMeaningAsJson(value: unknown): string | null;
export {};
