import { NevertwiceError } from "./errors.ts";
export interface KeyIdentity {
    /** "" when there is none. */
    readonly tenant: string;
    readonly action: string;
    readonly version: number;
    readonly scope: string | null;
    readonly parts: readonly unknown[];
    readonly secret?: string | Uint8Array | undefined;
}
/** "nt1_" and 52 characters of base32hex over SHA-256, or HMAC-SHA-256 when there is a secret. */
export declare function deriveKey(identity: KeyIdentity): string;
/**
 * The text that is hashed: canonical(["nt1", tenant, action, version, scope, ...parts]). It is one JSON array, so that
 * no separator inside a part can make two lists of parts look alike.
 */
export declare function keyText({ tenant, action, version, scope, parts }: KeyIdentity): string;
export declare function emptyPart(path: string, empty: string): NevertwiceError;
/** What is empty about a part, in words; null when it says something. */
export declare function emptiness(part: unknown): string | null;
/** SHA-256 of the text, or HMAC-SHA-256 when there is a secret. */
export declare function digest(text: string, secret?: string | Uint8Array | undefined): Buffer;
/** Lower-case base32hex without padding, for digests of 32 bytes (52 characters). */
export declare function base32hex(bytes: Uint8Array): string;
export declare function isKey(text: string): boolean;
/** The 32 digest bytes of a key. */
export declare function keyBytes(key: string): Uint8Array;
