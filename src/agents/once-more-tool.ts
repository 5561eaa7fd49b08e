/** "Once more": a tool by which a model asks for another run of a call that is done. Only a person can grant it. */
import { configError, isStoreUnavailable, noSuchOption } from "../core/errors.ts";
import { isKey } from "../core/key/key.ts";
import type { OnceMoreAnswer, OnceMoreAsk } from "../engine/once-more.ts";
import { tellStatus, tellStatusUnavailable } from "./messages.ts";

export const ONCE_MORE_TOOL = "nevertwice_once_more";

export interface OnceMoreToolOptions {
  readonly name?: string;
  /** The session, thread or run whose calls may be asked about; all of the tenant's unless given. null: those without a scope. */
  readonly scope?: string | null;
  /** Who asks, for the people who decide. */
  readonly agent?: string;
}

/** What the tool needs of `nevertwice()`. */
export interface OnceMoreAsking {
  requestOnceMore(target: { readonly key: string }, ask: OnceMoreAsk): Promise<OnceMoreAnswer>;
}

export interface OnceMoreTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the input. */
  readonly parameters: {
    readonly type: "object";
    readonly properties: Readonly<
      Record<"reference" | "reason", { readonly type: "string"; readonly description: string }>
    >;
    readonly required: string[];
    readonly additionalProperties: false;
  };
  execute(input: { readonly reference?: unknown; readonly reason?: unknown }): Promise<string>;
}

const REFERENCE = "the reference that the earlier call's answer gave: nt1_ and 52 characters";
const OPTIONS = ["name", "scope", "agent"];

export function onceMoreTool(nt: OnceMoreAsking, options: OnceMoreToolOptions = {}): OnceMoreTool {
  if (typeof nt?.requestOnceMore !== "function")
    throw configError("onceMoreTool: the first argument must be what nevertwice() returned.");
  const wrong = Object.keys(options).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("onceMoreTool", wrong, OPTIONS);
  if ("scope" in options && options.scope === undefined)
    throw configError(
      "onceMoreTool: scope is undefined. The variable it comes from may not be set, and then every session's calls could be asked about. Leave the option out if that is meant.",
    );
  const { name = ONCE_MORE_TOOL, scope, agent } = options;
  const whose = { ...(scope !== undefined && { scope }), ...(agent !== undefined && { agent }) };
  return {
    name,
    description:
      "Asks for one more run of an earlier tool call that is done, by its reference (nt1_…). A person decides; nothing runs by this. Use it only where the user really wants the same thing to happen again, not for an answer that was lost.",
    parameters: {
      type: "object",
      properties: {
        reference: { type: "string", description: REFERENCE },
        reason: { type: "string", description: "why it should happen once more, for the person who decides" },
      },
      required: ["reference", "reason"],
      additionalProperties: false,
    },
    async execute(input) {
      const { reference, reason } = (input ?? {}) as { reference?: unknown; reason?: unknown };
      const key = typeof reference === "string" ? reference.trim() : "";
      if (!isKey(key)) return `That is no reference. Give ${REFERENCE}.`;
      if (typeof reason !== "string" || reason.trim() === "")
        return "Give a reason: a person decides by it whether it happens once more.";
      try {
        return tell(await nt.requestOnceMore({ key }, { reason, ...whose }));
      } catch (error) {
        if (isStoreUnavailable(error)) return tellStatusUnavailable();
        throw error;
      }
    },
  };
}

function tell(answer: OnceMoreAnswer): string {
  switch (answer.status) {
    case "requested":
      return `${answer.created ? "Your request is noted" : "It has been asked for already"}, and nothing was run. Only a person can grant it. Tell the user that somebody has to decide; do not call the tool again before that, and do not try another way to the same end.`;
    case "granted":
      return "A person has granted it: the next identical call runs once more. Make that call once.";
    case "denied":
      return `A person has denied it${answer.reason === undefined ? "" : ` (${answer.reason})`}. It is not run again: do not ask again, and do not try another way to the same end.`;
    case "failed":
      return `There is nothing to ask for. ${tellStatus(answer)}`;
    case "absent":
      return tellStatus(answer);
    default:
      return `Not possible: only what is done can be run once more. ${tellStatus(answer)}`;
  }
}
