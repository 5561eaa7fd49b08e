/** What the engine tells those who watch. No event carries an input, a result or a key part (K6). */
export type EngineEvent = {
    readonly type: "executed";
    readonly action: string;
    readonly key: string;
    readonly attempt: number;
    readonly ms: number;
} | {
    readonly type: "replayed";
    readonly action: string;
    readonly key: string;
    readonly attempt: number;
} | {
    readonly type: "in_flight";
    readonly action: string;
    readonly key: string;
} | {
    readonly type: "failed";
    readonly action: string;
    readonly key: string;
    readonly attempt: number;
    readonly final: boolean;
} | {
    readonly type: "unknown";
    readonly action: string;
    readonly key: string;
    readonly attempt: number;
    readonly why: string;
} | {
    readonly type: "conflict";
    readonly action: string;
    readonly key: string;
    readonly differs: readonly string[];
} | {
    readonly type: "settled";
    readonly action: string;
    readonly key: string;
    readonly as: "done" | "not-done" | "failed";
    readonly how: "probe" | "resolve" | "late-success";
} | {
    readonly type: "lease_lost";
    readonly action: string;
    readonly key: string;
    readonly attempt: number;
}
/** Two successes with different results under one key: the effect happened twice. */
 | {
    readonly type: "duplicate_detected";
    readonly action: string;
    readonly key: string;
}
/** Run without the ledger, because the store was down and the action asked for it. */
 | {
    readonly type: "bypassed";
    readonly action: string;
    readonly key: string;
}
/** The effect happened and the ledger could not be told; it is being told again. */
 | {
    readonly type: "confirm_delayed";
    readonly action: string;
    readonly key: string;
} | {
    readonly type: "store_down";
    readonly store: string;
    readonly error: unknown;
} | {
    readonly type: "store_up";
    readonly store: string;
} | {
    readonly type: "warning";
    readonly code: string;
    readonly action: string;
    readonly message: string;
};
export type EventListener = (event: EngineEvent) => void;
export declare class Events {
    #private;
    on(listener: EventListener): () => void;
    emit(event: EngineEvent): void;
}
/** Each warning is said once per action and code. */
export declare class Warnings {
    #private;
    constructor(events: Events, sink?: (warning: {
        code: string;
        action: string;
        message: string;
    }) => void);
    said(code: string, action: string): boolean;
    warn(code: string, action: string, message: string): void;
}
