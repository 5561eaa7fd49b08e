import type { Outcome } from "../core/outcome.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import type { Clock } from "./clock.ts";
import { type Logger } from "./context.ts";
import type { Events, Warnings } from "./events.ts";
import type { Ledger } from "./ledger.ts";
import { type Payloads } from "./payloads.ts";
import { type Heart } from "./pulse.ts";
import type { Untold } from "./untold.ts";
export type End = {
    readonly kind: "done";
    readonly outcome: Outcome<unknown>;
    readonly stored: Stored | null;
} | {
    readonly kind: "failed";
    readonly stored: Stored;
    readonly error: unknown;
    readonly final: boolean;
    readonly retryAt: number | null;
} | {
    readonly kind: "unknown";
    readonly stored: Stored;
    readonly error: unknown;
}
/** The lease was lost before anything was sent: look at the record again. */
 | {
    readonly kind: "moved";
    readonly stored: Stored | null;
};
export interface ExecutionServices {
    readonly ledger: Ledger;
    readonly clock: Clock;
    readonly random: () => number;
    readonly payloads: Payloads;
    readonly events: Events;
    readonly warnings: Warnings;
    readonly logger: Logger;
    readonly untold: Untold;
    readonly heart: Heart;
}
export declare function execute(services: ExecutionServices, call: Call, claimed: Stored, input: unknown): Promise<End>;
