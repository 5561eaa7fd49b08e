import type { Absent, Outcome } from "../core/outcome.ts";
import type { Engine } from "./engine.ts";
export interface Resolution<R> {
    /** done: it happened · not-done: it did not, and may be claimed again · failed: it did not, and is not to be tried again */
    readonly as: "done" | "not-done" | "failed";
    readonly result?: R;
    readonly by: string;
    readonly reason: string;
}
export interface Signature {
    readonly by: string;
    readonly reason: string;
}
export declare function resolveDoubt(engine: Engine, key: string, resolution: Resolution<unknown>): Promise<Outcome<unknown> | Absent>;
/** A failed record may be tried again: the next call of its action, or a worker, claims it. */
export declare function retryFailed(engine: Engine, key: string, signature: Signature): Promise<Outcome<unknown> | Absent>;
export declare function checkSignature(signature: {
    by?: unknown;
    reason?: unknown;
}, where: string): void;
