import { type Absent, type Outcome } from "../core/outcome.ts";
import { type LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { type Call } from "./call.ts";
import { type ExecutionServices } from "./execution.ts";
export interface EngineServices extends ExecutionServices {
    readonly newHolder: () => string;
}
export declare class Engine {
    #private;
    readonly services: EngineServices;
    constructor(services: EngineServices);
    /** Begins no call any more, and waits for those under way. */
    close(): Promise<void>;
    /** A closed store must not be taken for one that is down, which an action may answer by running unguarded. */
    requireOpen(): void;
    /** Runs the intent, or joins whoever runs it in this process. */
    outcome(call: Call): Outcome<unknown> | Promise<Outcome<unknown>>;
    /** What the ledger says, without touching anything. */
    status(key: string): Promise<Outcome<unknown> | Absent>;
    describe(record: LedgerRecord): Outcome<unknown> | Absent;
    /** Settles a doubt from the ledger alone, as the sweeper does: with the stored input, and only as the policy allows. */
    settle(call: Call, stored: Stored): Promise<Outcome<unknown>>;
}
