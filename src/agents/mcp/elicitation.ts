/**
 * What the user answered to the questions that a tool asked while it ran (MCP's elicitation). What was declined did not happen,
 * whatever the tool returns afterwards.
 */
export class Elicitations {
  #accepted = false;
  #last: "accept" | "decline" | "decline-after-accept" | null = null;

  /** Protocol revision 2026-07-28 calls a tool again with the answers to what its first call asked for. */
  constructor(given?: unknown) {
    const answers = typeof given === "object" && given !== null ? Object.values(given).map(actionOf) : [];
    if (answers.includes("decline")) this.#last = "decline";
    this.#accepted = answers.includes("accept");
  }

  /** `isSure`: the question was this very call's. One that may have been another's proves nothing. */
  heard(answer: unknown, isSure = true): void {
    const action = actionOf(answer);
    if (action === null) return;
    if (action === "decline") this.#last = this.#accepted || !isSure ? "decline-after-accept" : action;
    else if (isSure) this.#last = action;
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

// A question that runs as a task of the client is answered by tasks/result.
const ANSWERED_BY: ReadonlySet<unknown> = new Set(["elicitation/create", "tasks/result"]);

/** Whether the answer to a server's request is a user's. */
export function asksUser(request: { readonly method?: unknown } | null | undefined): boolean {
  return ANSWERED_BY.has(request?.method);
}
