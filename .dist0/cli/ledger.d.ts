import type { Context, Io, Ledger } from "./command.ts";
export declare function findLedger(given: string | undefined, io: Io): Ledger;
export declare function noLedgerYet(ledger: Ledger & {
    exists: false;
}): string;
/** For commands that make no sense without records. */
export declare function requireStore(context: Context): import("../index.ts").Store;
/** The part that every JSON document has. */
export declare function ledgerJson({ name, why, exists }: Ledger): {
    store: string;
    why: string;
    exists: boolean;
};
