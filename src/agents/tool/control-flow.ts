/**
 * Control flow dressed as an error or as a result. A framework throws or returns it to stop here and come back later: a
 * question to a person, an approval, a suspended run. The effect has not happened yet, so it is neither a failure nor
 * something to store; it goes through as it came. Recognised by shape: no framework is imported.
 */

/** Thrown to stop the run: LangGraph's interrupts and parent commands, Genkit's interrupts, an MCP server asking for a URL visit. */
export function isControlFlowError(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { is_bubble_up, name, code } = error as { is_bubble_up?: unknown; name?: unknown; code?: unknown };
  return is_bubble_up === true || name === "ToolInterruptError" || code === URL_ELICITATION_REQUIRED;
}

/** JSON-RPC error of MCP: the user has to visit a page first, then the client calls again. */
export const URL_ELICITATION_REQUIRED = -32_042;

/** Returned to ask for something first: MCP's input_required (protocol revision 2026-07-28). */
export function isControlFlowResult(result: unknown): boolean {
  return field(result, "resultType") === "input_required";
}

/** LangGraph's Command: an order to the graph. The tool has run, but the order itself is not repeated. */
export function isGraphCommand(result: unknown): boolean {
  return field(result, "lg_name") === "Command";
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** Carries control flow through the engine: classified as "refused", so that the claim is given back and nothing is tried again. */
export class ControlFlow extends Error {
  override readonly name = "ControlFlow";
  readonly how: "thrown" | "returned";
  readonly value: unknown;

  constructor(how: "thrown" | "returned", value: unknown) {
    super("the tool stopped to ask for something first");
    this.how = how;
    this.value = value;
  }
}
