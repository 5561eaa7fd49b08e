export interface CallTimeSuspicion {
    readonly code: "CALL_TIME_KEY";
    /** Index of the part. */
    readonly part: number;
    /** The field's name, where there is one. */
    readonly name: string | null;
    readonly why: string;
}
export interface CallTimeQuery {
    readonly parts: readonly unknown[];
    /** Field names, when the key is a list of them. */
    readonly names?: readonly string[] | undefined;
    readonly input: unknown;
    readonly now: number;
}
export declare function callTimeSuspicions({ parts, names, input, now }: CallTimeQuery): CallTimeSuspicion[];
/** True when two runs of a key function on one input disagree, which only something made at call time can cause. */
export declare function partsDiffer(a: readonly unknown[], b: readonly unknown[]): boolean;
