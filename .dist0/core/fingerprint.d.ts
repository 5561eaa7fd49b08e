import type { Fingerprint } from "./record.ts";
/** The digests of one call's input. */
export interface InputPrint {
    readonly guarded: string;
    readonly free: string | null;
    /** Lazy: only a first write and a mismatch need one digest per field. */
    fields(): Readonly<Record<string, string>>;
}
export declare function printInput(input: unknown, free: readonly string[], secret?: string | Uint8Array): InputPrint;
export declare function toFingerprint(print: InputPrint): Fingerprint;
/**
 * The top-level fields that differ, by the present free list: guarded ones make a conflict, free ones are only told.
 * The digests of single fields decide, because a release may have moved a field between the two lists since.
 */
export declare function differing(stored: Fingerprint, print: InputPrint, free: readonly string[]): {
    readonly guarded: readonly string[];
    readonly free: readonly string[];
};
/** False when a free field could not be compared (a function, a stream, a BigInt): equal digests then prove nothing. */
export declare function isComparable({ fields }: Fingerprint): boolean;
