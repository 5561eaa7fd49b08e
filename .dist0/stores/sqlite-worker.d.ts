import type { Instant } from "../core/record.ts";
import type { SweepQuery } from "../core/store.ts";
import type { RowPut } from "./sqlite-ledger.ts";
export type WorkerRequest = {
    readonly id: number;
    readonly op: "write";
    readonly puts: readonly RowPut[];
} | {
    readonly id: number;
    readonly op: "sweep";
    readonly query: SweepQuery;
    readonly at: Instant;
} | {
    readonly id: number;
    readonly op: "stats";
    readonly at: Instant;
} | {
    readonly id: number;
    readonly op: "check";
} | {
    readonly id: number;
    readonly op: "checkpoint";
} | {
    readonly id: number;
    readonly op: "close";
};
export interface WorkerReply {
    readonly id: number;
    readonly value?: unknown;
    readonly error?: {
        readonly code: string;
        readonly message: string;
    };
}
