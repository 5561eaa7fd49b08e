import type { Put, Stored } from "../core/store.ts";
import { type SqlText } from "./postgres-row.ts";
export declare class Lineage {
    #private;
    /** The key as SQL takes it; converting it costs more than remembering it. */
    hexOf(key: string): string;
    keep({ record, version }: Stored, hex: string, moving?: readonly SqlText[] | null): void;
    /** The row's changing columns, where it has all of the record that a plain settle leaves alone; else null. */
    before({ record, expected }: Put, now: number): readonly SqlText[] | null;
}
