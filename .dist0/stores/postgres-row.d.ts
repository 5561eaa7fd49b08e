import { type LedgerRecord, type State } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
export type SqlText = string | null;
/** As a query returns it: columns are c0, c1, … in the order of COLUMNS. */
export type Row = Readonly<Record<string, SqlText>>;
interface Column {
    readonly name: string;
    readonly type: "bytea" | "text" | "bigint" | "integer" | "boolean" | "double precision";
}
/** What a plain confirm leaves as it is. */
export declare const FIXED: readonly [{
    readonly name: "key";
    readonly type: "bytea";
}, {
    readonly name: "tenant";
    readonly type: "text";
}, {
    readonly name: "action";
    readonly type: "text";
}, {
    readonly name: "scope";
    readonly type: "text";
}, {
    readonly name: "created_at";
    readonly type: "bigint";
}, {
    readonly name: "keep_ms";
    readonly type: "bigint";
}, {
    readonly name: "queued";
    readonly type: "boolean";
}, {
    readonly name: "doc";
    readonly type: "text";
}, {
    readonly name: "input";
    readonly type: "text";
}, {
    readonly name: "draft";
    readonly type: "text";
}];
/** What every write sets. */
export declare const MOVING: readonly [{
    readonly name: "rev";
    readonly type: "bigint";
}, {
    readonly name: "state";
    readonly type: "text";
}, {
    readonly name: "attempt";
    readonly type: "integer";
}, {
    readonly name: "fence";
    readonly type: "integer";
}, {
    readonly name: "tries";
    readonly type: "integer";
}, {
    readonly name: "holder";
    readonly type: "text";
}, {
    readonly name: "lease_until";
    readonly type: "double precision";
}, {
    readonly name: "lease_epoch";
    readonly type: "text";
}, {
    readonly name: "updated_at";
    readonly type: "bigint";
}, {
    readonly name: "first_sent_at";
    readonly type: "bigint";
}, {
    readonly name: "last_sent_at";
    readonly type: "bigint";
}, {
    readonly name: "sent_mark";
    readonly type: "text";
}, {
    readonly name: "attention";
    readonly type: "text";
}, {
    readonly name: "attention_at";
    readonly type: "bigint";
}, {
    readonly name: "expires_at";
    readonly type: "bigint";
}, {
    readonly name: "fate";
    readonly type: "text";
}, {
    readonly name: "result";
    readonly type: "text";
}];
export declare const COLUMNS: readonly Column[];
/** Every column as text under a name that no query builder's plugin rewrites. */
export declare function selectList(alias: string): string;
export declare const YOUNG_MS = 60000;
/** The kind of attention a claim wants that is no longer young. Its time is the creation, which no heartbeat changes. */
export declare const LEASED = "leased";
/** The mark of a first send that the same clock took as the time beside it. */
export declare const SAME_MARK = "=";
export declare function fixedValues(record: LedgerRecord, hex: string): SqlText[];
export declare function movingValues(record: LedgerRecord, rev: number, now: number): SqlText[];
/**
 * What the sweep goes by: no row expires sooner than this after its creation. It is the action's keep, and so does not
 * change when the record is settled; a record whose own times say less is held to them.
 */
export declare function keepClass({ createdAt, expiresAt, keepMs }: LedgerRecord): number;
/** The kinds that hold all records of a state; null: the state has none. */
export declare function attentionKinds(state: State): readonly string[] | null;
export declare function decodeRow(row: Row, where: string): Stored;
export {};
