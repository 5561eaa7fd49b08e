import type { LedgerRecord } from "../core/record.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
export type SettledAnswer = {
    readonly as: "done";
    readonly result: unknown;
} | {
    readonly as: "not-done";
} | {
    readonly as: "unknown";
};
export declare function askProbe(services: ExecutionServices, call: Call, record: LedgerRecord): Promise<SettledAnswer>;
