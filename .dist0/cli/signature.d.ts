/** Who decides, and why: both are kept in the record's history, so neither may be missing. */
import type { Context } from "./command.ts";
export declare const SIGNATURE_FLAGS: {
    readonly by: {
        readonly takes: "value";
        readonly value: "who";
        readonly about: "who decides: a person or a program (default: your user name)";
    };
    readonly reason: {
        readonly takes: "value";
        readonly value: "why";
        readonly about: "why, for the record's history; required";
    };
};
export declare function signatureOf(context: Context, example: string): {
    by: string;
    reason: string;
};
