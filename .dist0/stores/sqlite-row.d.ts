import { type LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
export declare const COLUMNS: readonly ["key", "rev", "tenant", "action", "scope", "state", "lease_until", "lease_epoch", "attention_at", "expires_at", "created_at", "doc", "input", "draft", "result", "sum"];
export type Row = Readonly<Record<(typeof COLUMNS)[number], string | number | null>>;
/** Values in the order of COLUMNS. */
export type RowValues = (string | number | null)[];
export declare function encodeRow(record: LedgerRecord, rev: number): RowValues;
export declare function decodeRow(row: Row, where: string): Stored;
