/** What a running attempt knows about itself, and how deep code gets at it. */
import { AsyncLocalStorage } from "node:async_hooks";
const nothing = () => { };
export const silentLogger = { debug: nothing, info: nothing, warn: nothing, error: nothing };
const running = new AsyncLocalStorage();
/** The attempt this code runs in, so that a function deep below can pass its key on; undefined outside of one. */
export function currentAttempt() {
    return running.getStore();
}
export function runAs(context, work) {
    return running.run(context, work);
}
//# sourceMappingURL=context.js.map