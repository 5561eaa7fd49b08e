import type { ProviderKeyFormat } from "../core/provider-key.ts";
export interface Logger {
    debug(message: string, data?: unknown): void;
    info(message: string, data?: unknown): void;
    warn(message: string, data?: unknown): void;
    error(message: string, data?: unknown): void;
}
export declare const silentLogger: Logger;
export interface AttemptContext {
    /** The intent's key: hand it to a provider that honours idempotency keys. */
    readonly key: string;
    readonly attempt: number;
    readonly fence: number;
    /** Aborted when the attempt times out or loses its lease. */
    readonly signal: AbortSignal;
    /** The key in the form a provider takes. */
    providerKey(format?: ProviderKeyFormat): string;
    /** Epoch ms by which the attempt must have its answer. */
    readonly deadline: number;
    /** With `mark: "manual"`: await it right before the effect. What throws before it was surely not sent. */
    sent(): Promise<void>;
    readonly log: Logger;
}
/** The attempt this code runs in, so that a function deep below can pass its key on; undefined outside of one. */
export declare function currentAttempt(): AttemptContext | undefined;
export declare function runAs<T>(context: AttemptContext, work: () => T): T;
