/** What a caller does next, given the record as it stands. Pure: the engine only carries it out. */
import type { Policy } from "./policy.ts";
import { type Instant, type LedgerRecord } from "./record.ts";
import { type ResendPermit } from "./transition.ts";
export type Step = 
/** Nothing stands in the way: claim it. */
{
    readonly do: "claim";
}
/** Say what is true. */
 | {
    readonly do: "answer";
}
/** Another attempt holds it. */
 | {
    readonly do: "wait-for-holder";
}
/** Something may be done, but not before. */
 | {
    readonly do: "wait";
    readonly ms: number;
}
/** A holder fell silent: make the doubt visible first. */
 | {
    readonly do: "lapse";
} | {
    readonly do: "resend";
    readonly permit: ResendPermit;
} | {
    readonly do: "probe";
    readonly quietForMs: number;
};
export interface Situation {
    readonly policy: Policy;
    readonly at: Instant;
    /** The first claim of this call: a new round of tries. */
    readonly newRound: boolean;
    /** The bytes of the attempt in doubt are at hand, so that a resend can be the same. */
    readonly sameBytes: boolean;
}
export declare function nextStep(record: LedgerRecord | null, situation: Situation): Step;
