import { fromStoredError } from "../core/stored-error.js";
// The user's own error behind an outcome in doubt: reachable for action(), invisible in the outcome's data.
const causes = new WeakMap();
export function withCause(outcome, cause) {
    if (cause !== null && cause !== undefined)
        causes.set(outcome, cause);
    return outcome;
}
export function causeOf(outcome) {
    return causes.get(outcome);
}
// Errors read back from the ledger, so that action() does not pass one off as thrown by this very call.
const remembered = new WeakSet();
export function rememberedError(record) {
    const error = fromStoredError(record.error ?? { name: "Error", message: "no error was recorded" });
    remembered.add(error);
    return error;
}
export function isRemembered(error) {
    return typeof error === "object" && error !== null && remembered.has(error);
}
//# sourceMappingURL=error-memory.js.map