import type { LedgerRecord, State } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
export declare const VERSION_DIGITS = 16;
export declare const STATE_OF_LETTER: Map<string, State>;
export declare function versionText(version: number): string;
export declare function encodeRow(record: LedgerRecord, version: number): string;
export declare function decodeRow(key: string, value: string): Stored;
