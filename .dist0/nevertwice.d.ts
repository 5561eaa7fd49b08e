import type { Duration } from "./core/duration.ts";
import type { Absent, Outcome } from "./core/outcome.ts";
import { type PolicyOptions } from "./core/policy.ts";
import { type EncryptOption } from "./core/seal.ts";
import type { Store } from "./core/store.ts";
import { type Action } from "./engine/action.ts";
import type { CallOptions } from "./engine/call.ts";
import { type AttemptContext, type Logger } from "./engine/context.ts";
import { type ActionOptions } from "./engine/definition.ts";
import { type EventListener } from "./engine/events.ts";
import { type Resolution, type Signature } from "./engine/operate.ts";
import type { InferInput, InferOutput, StandardSchema } from "./engine/standard-schema.ts";
import { type SweepReport } from "./engine/sweeper.ts";
export interface NevertwiceOptions {
    /** A store, or where one is: "sqlite:app.db", "memory:". Default: $NEVERTWICE_STORE, else SQLite at .nevertwice/ledger.db. */
    readonly store?: string | Store;
    /** Part of every key; a call may name another. */
    readonly tenant?: string;
    /** Makes keys unguessable (HMAC). Changing it changes every key. */
    readonly secret?: string | Uint8Array;
    /** Seals stored inputs, drafts and results (AES-256-GCM). A list rotates: the first seals, all open. */
    readonly encrypt?: EncryptOption;
    readonly logger?: Logger;
    readonly onWarning?: (warning: {
        readonly code: string;
        readonly action: string;
        readonly message: string;
    }) => void;
    /** How often silent holders are looked for in the background; false: only when sweep() is called. */
    readonly sweep?: Duration | false;
}
export interface Nevertwice {
    readonly store: Store;
    action<S extends StandardSchema<unknown, unknown>, R, D = undefined>(name: string, options: ActionOptions<InferOutput<S>, R, D> & {
        readonly input: S;
    }): Action<InferInput<S>, R>;
    action<I, R, D = undefined>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
    /** Ad hoc: `parts` name the intent, `run` has the effect. */
    once<R>(name: string, parts: readonly unknown[], run: (context: AttemptContext) => R | Promise<R>, options?: OnceOptions): Promise<R>;
    status(target: {
        readonly key: string;
    }): Promise<Outcome<unknown> | Absent>;
    resolve(target: {
        readonly key: string;
    }, resolution: Resolution<unknown>): Promise<Outcome<unknown> | Absent>;
    /** Brings a failed record back. */
    retry(target: {
        readonly key: string;
    }, signature: Signature): Promise<Outcome<unknown> | Absent>;
    /** One pass of the sweeper, now. */
    sweep(): Promise<SweepReport>;
    /** Everything that happens, for metrics and alerts. Returns the way to stop listening. */
    on(listener: EventListener): () => void;
    /** Waits for what runs, tells the ledger what it does not know yet, closes the store. */
    close(): Promise<void>;
}
export type OnceOptions = Omit<PolicyOptions<never>, "doubt"> & {
    readonly doubt?: "hold" | "retry" | {
        readonly resendWithin: Duration;
    };
} & CallOptions;
export declare function nevertwice(options?: NevertwiceOptions): Nevertwice;
