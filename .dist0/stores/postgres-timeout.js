/** Nothing waits for a server forever: a query without an answer is an error after this long, and its session is done for. */
export class QueryTimeout extends Error {
    name = "QueryTimeout";
    timeoutMs;
    constructor(timeoutMs) {
        super(`no answer within ${timeoutMs} ms`);
        this.timeoutMs = timeoutMs;
    }
}
/** Rejects after `timeoutMs` and calls `giveUp`; an answer that comes later is dropped, never taken for one. */
export function answerWithin(timeoutMs, answer, giveUp) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
            reject(new QueryTimeout(timeoutMs));
            giveUp();
        }, timeoutMs);
        answer.then((value) => {
            clearTimeout(timer);
            resolve(value);
        }, (error) => {
            clearTimeout(timer);
            reject(error);
        });
    });
}
//# sourceMappingURL=postgres-timeout.js.map