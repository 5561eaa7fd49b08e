/**
 * The index of a bucket: one sorted set whose members are typed by their first letter, and whose scores carry the type
 * too, so that each type is a range of its own. One key and not six, because a cluster that moves a slot refuses a script
 * when any key it names is not there, and an empty sorted set is never there.
 *
 * a  all records, by creation                      every record, added once
 * o  open: claimed or sent, by the end of the lease   added by a claim, removed by its settle
 * p  pending · u  unknown · f  failed, by creation
 * q  queued work, by the time it may be handed out
 *
 * A plain claim and confirm touch two members: `a` once, `o` in and out.
 */
import type { LedgerRecord, State } from "../core/record.ts";
export type IndexType = "a" | "o" | "p" | "u" | "f" | "q";
export declare const TYPE_OF_STATE: Readonly<Record<State, IndexType | null>>;
export declare function scoreOf(type: IndexType, at: number): number;
export declare function timeOf(score: number): number;
export declare function rangeOf(type: IndexType): {
    readonly min: number;
    readonly max: number;
};
/**
 * What an index says about a record, besides its type: what a key fixes, so that lists are filtered without reading records.
 * The key, the scope as JSON (nothing where there is none), and tenant and action as JSON.
 */
export declare function entryOf({ key, tenant, action, scope }: LedgerRecord): string;
export declare function keyOfEntry(entry: string): string;
/** Tenant and action as the scripts compare them: how that part of an entry begins, and how it ends. Empty: any. */
export declare function tenantStart(tenant: string | undefined): string;
export declare function actionEnd(action: string | undefined): string;
/** Where the record stands among its like; null: a confirmed record is in no list but `a`. */
export declare function stateScore(record: LedgerRecord): number | null;
/** Work for a queue's workers: due, or claimed by one whose lease will be over then. */
export declare function queueScore(record: LedgerRecord): number | null;
