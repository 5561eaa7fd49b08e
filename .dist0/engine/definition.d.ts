import type { KeyOption } from "../core/key-parts.ts";
import { type Policy, type PolicyOptions, type ProbeAnswer } from "../core/policy.ts";
import type { AttemptContext } from "./context.ts";
import type { StandardSchema } from "./standard-schema.ts";
export type Verdictish = "not-sent" | "rejected" | "doubt";
export type Probe<I, R> = (input: I, context: ProbeContext) => ProbeAnswer<R> | Promise<ProbeAnswer<R>>;
export interface ProbeContext {
    readonly key: string;
    readonly attempt: number;
    /** Epoch ms: the first and the last time the effect may have left. */
    readonly firstSentAt: number;
    readonly lastSentAt: number;
    readonly signal: AbortSignal;
    providerKey: AttemptContext["providerKey"];
}
export interface ActionOptions<I, R, D = undefined> extends PolicyOptions<Probe<I, R>> {
    /** Any Standard Schema (zod, valibot, arktype …). */
    readonly input?: StandardSchema<unknown, I>;
    /** What makes two calls the same intent: field names, or a function of the input. Without it, every field that is not free. */
    readonly key?: KeyOption<I>;
    /** Fields that may be reworded; all others must match on a repeat. */
    readonly free?: readonly (I extends object ? keyof I & string : string)[];
    /** "manual": `run` calls ctx.sent() right before the effect. */
    readonly mark?: "auto" | "manual";
    /** Runs before the send mark, so it is safe to run again. Its draft is stored with the mark and handed to `run`. */
    readonly prepare?: (input: I, context: AttemptContext) => D | Promise<D>;
    readonly run: (input: I, context: AttemptContext, draft: D) => R | Promise<R>;
    /** A second opinion on an error; undefined leaves it to the built-in rules. */
    readonly classify?: (error: unknown) => Verdictish | undefined;
}
export interface Definition {
    readonly name: string;
    readonly policy: Policy;
    readonly key: KeyOption<unknown> | undefined;
    readonly free: readonly string[];
    readonly schema: StandardSchema<unknown, unknown> | undefined;
    readonly manual: boolean;
    readonly prepare: ((input: unknown, context: AttemptContext) => unknown) | undefined;
    readonly run: (input: unknown, context: AttemptContext, draft: unknown) => unknown;
    readonly probe: Probe<unknown, unknown> | undefined;
    readonly classify: ((error: unknown) => Verdictish | undefined) | undefined;
}
export declare function defineAction<I, R, D>(name: string, options: ActionOptions<I, R, D>): Definition;
