import { type Absent, type Outcome } from "../core/outcome.ts";
import { type CallDefaults, type CallOptions } from "./call.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
import { type Resolution } from "./operate.ts";
export interface ResendOptions extends CallOptions {
    /** Who sends it again, and why: kept in the record's history. */
    readonly by: string;
    readonly reason: string;
}
export interface Action<I, R> {
    /** Runs once; a repeat returns the first result. Throws where `attempt` would return anything but `done`. */
    (input: I, options?: CallOptions): Promise<R>;
    readonly actionName: string;
    /** The same, but an expected outcome never throws. */
    attempt(input: I, options?: CallOptions): Promise<Outcome<R>>;
    /** What the ledger says; never runs anything. */
    status(target: I | {
        readonly key: string;
    }, options?: CallOptions): Promise<Outcome<R> | Absent>;
    /** On purpose once more: the next version of the intent. Refused while the latest version is in flight or in doubt. */
    resend(input: I, options: ResendOptions): Promise<R>;
    /** Settles a doubt by a named person or program. */
    resolve(target: I | {
        readonly key: string;
    }, resolution: Resolution<R>, options?: CallOptions): Promise<Outcome<R>>;
    /** The key this input has. */
    keyOf(input: I, options?: CallOptions): Promise<string>;
}
export interface ActionServices {
    readonly engine: Engine;
    readonly defaults: CallDefaults;
    /** Called at the first use, so that a program that only imports actions opens nothing. */
    readonly used: () => void;
}
export declare function createAction<I, R>(definition: Definition, services: ActionServices): Action<I, R>;
/** The outcome behind an error that an action threw, the user's own errors included. */
export declare function outcomeOf(error: unknown): Outcome<unknown> | undefined;
