import type { Store } from "./core/store.ts";
import { type Surroundings } from "./stores/sqlite-location.ts";
export interface NamedStore {
    readonly store: Store;
    /** How the store was chosen: shown by doctor and --verbose. */
    readonly why: string;
}
export declare function openStore(given: string | Store | undefined): Store;
/** An explicit name wins over $NEVERTWICE_STORE, which wins over the embedded default. */
export declare function chooseStore(given: string | Store | undefined, option: "store" | "--store", around?: Surroundings): NamedStore;
/**
 * The file that `chooseStore` would open, for those who only want to look: opening makes it where there is none.
 * Null: the store is not a file of its own.
 */
export declare function ledgerFile(given: string | undefined, option: "store" | "--store", around?: Surroundings): {
    readonly path: string;
    readonly why: string;
} | null;
