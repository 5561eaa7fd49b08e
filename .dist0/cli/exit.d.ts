import type { Absent, Outcome } from "../core/outcome.ts";
export declare const EXIT: {
    readonly ok: 0;
    /** A problem was found, or the ledger refused. */
    readonly problem: 1;
    readonly usage: 2;
    readonly unavailable: 3;
};
export declare function exitOfStatus(status: (Outcome<unknown> | Absent)["status"]): number;
/** The command line is not understood, or lacks something: says what to write instead. */
export declare class UsageError extends Error {
    readonly name = "UsageError";
}
/** The ledger was reached, and what was asked for cannot be done. */
export declare class ProblemError extends Error {
    readonly name = "ProblemError";
}
export declare function exitOfError(error: unknown): number;
export declare function codeOfError(error: unknown): string;
