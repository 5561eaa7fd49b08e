/**
 * What the user answered to the questions that a tool asked while it ran (MCP's elicitation). What was declined did not happen,
 * whatever the tool returns afterwards.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** A request to the client, as `request` and `sendRequest` of the SDKs take it. */
type Ask = (request: { readonly method?: unknown }, ...rest: unknown[]) => unknown;

export class Elicitations {
  #accepted = false;
  #last: "accept" | "decline" | "decline-after-accept" | null = null;

  /** SDK 2.x calls a tool again with the answers to what its first call asked for. */
  constructor(given: unknown) {
    const answers = typeof given === "object" && given !== null ? Object.values(given).map(actionOf) : [];
    if (answers.includes("decline")) this.#last = "decline";
    this.#accepted = answers.includes("accept");
  }

  heard(answer: unknown): void {
    const action = actionOf(answer);
    if (action === null) return;
    this.#last = action === "decline" && this.#accepted ? "decline-after-accept" : action;
    if (action === "accept") this.#accepted = true;
  }

  /**
   * not-done: the last question was declined, and none was accepted before. doubt: one was, and what it was about may have
   * happened. null: nothing was declined, or it was asked again and accepted.
   */
  get declined(): "not-done" | "doubt" | null {
    if (this.#last === "decline") return "not-done";
    return this.#last === "decline-after-accept" ? "doubt" : null;
  }
}

function actionOf(answer: unknown): "accept" | "decline" | null {
  const action = typeof answer === "object" && answer !== null ? (answer as { action?: unknown }).action : undefined;
  if (action === "accept") return "accept";
  return action === "decline" || action === "cancel" ? "decline" : null;
}

const asked = new AsyncLocalStorage<Elicitations>();

export function noting<T>(elicitations: Elicitations, run: () => T): T {
  return asked.run(elicitations, run);
}

// A question that runs as a task of the client is answered by tasks/result.
const ANSWERED_BY: ReadonlySet<unknown> = new Set(["elicitation/create", "tasks/result"]);

/** The same function, whose answers are noted for the guarded call that it is used in. */
export function heardBy<F extends Ask>(ask: F): F {
  const heard = (request: { readonly method?: unknown }, ...rest: unknown[]) =>
    hear(ask(request, ...rest), ANSWERED_BY.has(request?.method));
  return heard as F;
}

function hear(answer: unknown, isAnswer: boolean): unknown {
  const elicitations = asked.getStore();
  if (!isAnswer || elicitations === undefined || !(answer instanceof Promise)) return answer;
  return answer.then((value: unknown) => {
    elicitations.heard(value);
    return value;
  });
}

/** A call's context, whose own means to ask are noted: `sendRequest` of 1.x, `mcpReq.send` and `elicitInput` of 2.x. */
export function heardContext<X extends object>(extra: X): X {
  const { sendRequest, mcpReq } = extra as { sendRequest?: unknown; mcpReq?: Record<string, unknown> };
  const { send, elicitInput } = mcpReq ?? {};
  return {
    ...extra,
    ...(typeof sendRequest === "function" && { sendRequest: heardBy(sendRequest as Ask) }),
    ...(mcpReq !== undefined && {
      mcpReq: {
        ...mcpReq,
        ...(typeof send === "function" && { send: heardBy(send as Ask) }),
        ...(typeof elicitInput === "function" && {
          elicitInput: (...args: unknown[]) => hear((elicitInput as (...given: unknown[]) => unknown)(...args), true),
        }),
      },
    }),
  };
}

/** The answers that came with the call itself (SDK 2.x). */
export function answersIn(extra: object): unknown {
  return (extra as { mcpReq?: { inputResponses?: unknown } }).mcpReq?.inputResponses;
}
