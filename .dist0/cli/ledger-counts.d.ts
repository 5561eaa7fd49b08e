import { type LedgerStats, type Store } from "../core/store.ts";
export declare function countLedger(store: Store, tenant: string | undefined): Promise<LedgerStats>;
export declare function emptyStats(): LedgerStats;
