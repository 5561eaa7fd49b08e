/**
 * What nevertwice throws, and the two words a user's function may throw to say more than an exception can.
 */
/** Every error of nevertwice: a stable `code`, the `key` where one is known, and a sentence that says what to do next. */
export class NevertwiceError extends Error {
    name = "NevertwiceError";
    code;
    key;
    /** The outcome that `attempt()` would have returned, where the error stands for one. */
    outcome;
    constructor(code, message, details = {}) {
        super(message, details.cause === undefined ? undefined : { cause: details.cause });
        this.code = code;
        this.key = details.key;
        this.outcome = details.outcome;
    }
}
// Marks travel by registered symbol, not by class: two copies of the package in one process must understand each other.
const NOT_SENT = Symbol.for("nevertwice.notSent");
const REJECTED = Symbol.for("nevertwice.rejected");
function markedError(message, cause, symbol, mark) {
    const error = new Error(message, { cause });
    Object.defineProperty(error, symbol, { value: mark, enumerable: false });
    return error;
}
/** Throw this from `run` or `prepare`: nothing left the house, so another try is safe. */
export function notSent(cause, options = {}) {
    const mark = { cause, retryAfter: options.retryAfter };
    return markedError(`not sent: ${messageOf(cause)}`, cause, NOT_SENT, mark);
}
/** Throw this from `run` or `prepare`: the effect was refused for good and did not happen. */
export function rejected(cause) {
    return markedError(`rejected: ${messageOf(cause)}`, cause, REJECTED, { cause });
}
export function notSentMark(error) {
    return readMark(error, NOT_SENT);
}
export function rejectedMark(error) {
    return readMark(error, REJECTED);
}
function readMark(error, symbol) {
    if (typeof error !== "object" || error === null)
        return undefined;
    return error[symbol];
}
export function messageOf(error) {
    if (error instanceof Error)
        return error.message || error.name;
    if (typeof error === "string")
        return error;
    try {
        return JSON.stringify(error) ?? String(error);
    }
    catch {
        return String(error);
    }
}
export function isNevertwiceError(error) {
    return error instanceof Error && error.name === "NevertwiceError" && "code" in error;
}
export function configError(message, cause) {
    return new NevertwiceError("CONFIG", message, { cause });
}
//# sourceMappingURL=errors.js.map