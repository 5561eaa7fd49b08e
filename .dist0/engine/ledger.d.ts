import type { Instant, LedgerRecord } from "../core/record.ts";
import { type GuardedPolicy, type Store, type Stored } from "../core/store.ts";
import { type LedgerEvent, type Refusal } from "../core/transition.ts";
import { type Clock } from "./clock.ts";
import type { Events } from "./events.ts";
export type Applied = {
    readonly ok: true;
    readonly stored: Stored;
} | {
    readonly ok: false;
    readonly refusal: Refusal;
    readonly stored: Stored | null;
};
/**
 * An event, or how to make one from the record as it stands (a sealed input is bound to the fence it will get). Null:
 * the record turned out to be one this event must not touch.
 */
export type EventSource = LedgerEvent | ((current: LedgerRecord | null) => LedgerEvent | null);
export interface LedgerOptions {
    readonly store: Store;
    readonly clock: Clock;
    readonly events: Events;
    readonly random: () => number;
}
export declare class Ledger {
    #private;
    readonly store: Store;
    constructor({ store, clock, events, random }: LedgerOptions);
    instant(): Instant;
    /** Null: the store may guard such actions. Otherwise to be waited for; it rejects with what the store says against it. */
    admits(doubt: GuardedPolicy["doubt"]): Promise<void> | null;
    read(key: string): Promise<Stored | null>;
    /** Carries an event out on the record as it stands, however often others get in between. */
    apply(seen: Stored | null, source: EventSource): Promise<Applied>;
}
