import { type Duration } from "../core/duration.ts";
import { type InputPrint } from "../core/fingerprint.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Intent } from "../core/transition.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import { type Payloads } from "./payloads.ts";
export interface CallOptions {
    /** A run, session or thread id: the same intent in another scope is another intent. */
    readonly scope?: string;
    /** 1 unless a deliberate resend raised it. */
    readonly version?: number;
    readonly tenant?: string;
    readonly wait?: Duration;
    /** The caller's own open transaction: claim, effect and confirm commit with it. */
    readonly tx?: unknown;
}
export interface Call {
    readonly definition: Definition;
    readonly key: string;
    readonly tenant: string;
    readonly version: number;
    readonly scope: string | null;
    /** Parsed. */
    readonly input: unknown;
    /** As given, before parsing: what the ledger keeps. */
    readonly given: unknown;
    readonly print: InputPrint;
    readonly waitMs: number;
    /** A deliberate resend says who and why. */
    readonly resend?: {
        readonly by: string;
        readonly reason: string;
    };
}
export interface CallDefaults {
    readonly tenant: string;
    readonly secret: string | Uint8Array | undefined;
}
export declare function makeCall(definition: Definition, given: unknown, input: unknown, options: CallOptions, defaults: CallDefaults): Call;
/** K5: says so when a part of the key looks made at call time, which would defeat the whole thing. */
export declare function warnOfCallTimeParts(definition: Definition, input: unknown, now: number, warnings: Warnings): void;
/** What the ledger is told about the call when it claims; the input is bound to the fence the claim will get. */
export declare function intentOf(call: Call, current: LedgerRecord | null, payloads: Payloads): Intent;
