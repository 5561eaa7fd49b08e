import { type LedgerStats, type Store, type StoreTraits } from "../core/store.ts";
export interface Check {
    readonly name: string;
    readonly value: string;
    readonly level: "ok" | "note" | "problem";
    readonly advice?: string;
}
export interface Area {
    readonly title: string;
    readonly checks: readonly Check[];
}
export declare function promises({ survives, hosts }: StoreTraits): Check[];
/** What the store says about itself; a store that cannot be looked at is the finding. */
export declare function inspectStore(store: Store): Promise<Check[]>;
export declare function unavailable(error: unknown): Check;
export declare function waiting(store: Store, counts: LedgerStats, tenant: string | undefined): Promise<Check[]>;
export declare function nodeCheck(version: string): Check;
