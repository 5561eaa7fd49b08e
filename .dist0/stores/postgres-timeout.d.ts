/** Nothing waits for a server forever: a query without an answer is an error after this long, and its session is done for. */
export declare class QueryTimeout extends Error {
    readonly name = "QueryTimeout";
    readonly timeoutMs: number;
    constructor(timeoutMs: number);
}
/** Rejects after `timeoutMs` and calls `giveUp`; an answer that comes later is dropped, never taken for one. */
export declare function answerWithin<T>(timeoutMs: number, answer: PromiseLike<T>, giveUp: () => void): Promise<T>;
