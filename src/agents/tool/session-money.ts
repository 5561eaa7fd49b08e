/**
 * A tool that moves money, in a scope that its wrapper took from the session: the same call in the next session is another
 * intent there, and pays again. With effect: "payment" a scope has to be given; a tool without it is judged by its name.
 */
import { soundsLikeMoney } from "../../core/money-name.ts";
import { warningsOf } from "../../engine/action-warnings.ts";

const PER_SESSION = Symbol("nevertwice.perSession");

/** Marks the scope that a wrapper takes from the session, thread or run, where its user gave none. */
export function perSession<F extends (extra: never) => unknown>(scope: F): F {
  return Object.assign(scope, { [PER_SESSION]: true });
}

interface ScopedTool {
  readonly name: string;
  readonly scope?: unknown;
  readonly effect?: unknown;
}

const looked = new WeakSet<object>();

/** Once for each tool, at its first call in a session. A kind of effect, or a scope, that was given is an answer. */
export function warnOfNewSession(
  action: object,
  { name, scope, effect }: ScopedTool,
  caller: { readonly scope?: string },
): void {
  if (looked.has(action) || caller.scope === undefined) return;
  looked.add(action);
  const isPerSession = typeof scope === "function" && PER_SESSION in scope;
  if (!isPerSession || effect !== undefined || !soundsLikeMoney(name)) return;
  warningsOf(action)?.warn(
    "MONEY_PER_SESSION",
    `tool ${JSON.stringify(name)}: its name suggests that it moves money, and its calls are scoped to the session. The same call in a new session pays again. Say what holds: effect: "payment" with scope: null (once in any session) or scope: the id of the order or customer, and a key that names the intent, such as key: ["orderId"]. If it moves no money, give scope a value, or another effect.`,
  );
}
