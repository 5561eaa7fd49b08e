/** How a record stands, in words. A holder that fell silent after the send mark is a doubt, whatever its row still says. */
import { type Absent, type Outcome } from "../core/outcome.ts";
import { type Instant, type LedgerRecord } from "../core/record.ts";
import type { Paint } from "./paint.ts";
export interface Standing {
    /** What a caller would be told. */
    readonly status: (Outcome<unknown> | Absent)["status"];
    /** Claimed or sent, and its holder fell silent. */
    readonly lapsed: boolean;
    /** Past `keep`: it guards its key no longer, and the next sweep removes it. */
    readonly expired: boolean;
    readonly inDoubt: boolean;
    /** The state for tables; "unknown*" for a holder that fell silent after the send mark. */
    readonly label: string;
}
export declare function standingOf(record: LedgerRecord, at: Instant): Standing;
export declare const SILENT_MARK = "* its holder stopped answering after the send mark: in doubt, though no sweep has said so yet";
export declare function paintState(label: string, paint: Paint): (text: string) => string;
/** The last column of `ls`: what there is to know about it, on one line. */
export declare function remarkOf(record: LedgerRecord, at: Instant): string;
export declare function leaseLeftMs(record: LedgerRecord, at: Instant): number | null;
/** For a person who has to decide: what is known, and what follows by itself. */
export declare function plainWords(record: LedgerRecord, at: Instant): string;
/** What follows once the record is pending again. */
export declare function whoRunsIt(record: LedgerRecord): string;
/** "send_followup", or "send_followup v2" for a deliberate resend. */
export declare function actionLabel({ action, version }: LedgerRecord): string;
