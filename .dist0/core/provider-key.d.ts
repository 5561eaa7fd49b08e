/**
 * How a provider wants its idempotency key. "key": as it is (56 characters) · "uuid": the form of a UUID v4 ·
 * "hex": 64 characters · "base32hex": 52 characters · { maxLength }: base32hex cut to at most that length.
 */
export type ProviderKeyFormat = "key" | "uuid" | "hex" | "base32hex" | {
    readonly maxLength: number;
};
/** The key in the form a provider accepts: always the same for the same key. */
export declare function providerKey(key: string, format?: ProviderKeyFormat): string;
