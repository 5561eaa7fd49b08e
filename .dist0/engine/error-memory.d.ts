/** Which errors stand behind outcomes: kept beside them, so that outcomes stay plain data. */
import type { Outcome } from "../core/outcome.ts";
import type { LedgerRecord } from "../core/record.ts";
export declare function withCause(outcome: Outcome<unknown>, cause: unknown): Outcome<unknown>;
export declare function causeOf(outcome: object): unknown;
export declare function rememberedError(record: LedgerRecord): Error;
export declare function isRemembered(error: unknown): boolean;
