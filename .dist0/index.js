export { isNevertwiceError, NevertwiceError, notSent, rejected, } from "./core/errors.js";
export { keepFor, } from "./core/policy.js";
export { billingPeriod, day, month, week, windowOf, } from "./core/windows.js";
export { outcomeOf } from "./engine/action.js";
export { currentAttempt } from "./engine/context.js";
export { nevertwice } from "./nevertwice.js";
//# sourceMappingURL=index.js.map