/** A way for those who are handed an action to warn about it: through onWarning, once for each code. */

// By registered symbol: the action and whoever warns may come from two copies of the package.
const WARN = Symbol.for("nevertwice.warn");

type Warn = (code: string, message: string) => void;

export function withWarnings<A extends object>(action: A, warn: Warn): A {
  return Object.defineProperty(action, WARN, { value: warn });
}

export function warnOfAction(action: object, code: string, message: string): void {
  (action as { readonly [WARN]?: Warn })[WARN]?.(code, message);
}
