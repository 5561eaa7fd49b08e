/** A way for those who are handed an action to warn about it: through onWarning, once for each code. */

// By registered symbol: the action and whoever warns may come from two copies of the package.
const WARNINGS = Symbol.for("nevertwice.warnings");

export interface ActionWarnings {
  warn(code: string, message: string): void;
}

export function withWarnings<A extends object>(action: A, warnings: ActionWarnings): A {
  return Object.defineProperty(action, WARNINGS, { value: warnings });
}

export function warningsOf(action: object): ActionWarnings | undefined {
  return (action as { readonly [WARNINGS]?: ActionWarnings })[WARNINGS];
}
