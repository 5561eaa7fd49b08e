/** Looking before trying again: a tool that tells a model the outcome of an earlier call. It never runs anything. */
import { configError, isStoreUnavailable, noSuchOption } from "../core/errors.ts";
import { isKey } from "../core/key/key.ts";
import { tellStatus, tellStatusUnavailable } from "./messages.ts";
import type { Guarding } from "./tool/options.ts";

export const STATUS_TOOL = "nevertwice_status";

export interface StatusTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the input. */
  readonly parameters: {
    readonly type: "object";
    readonly properties: { readonly reference: { readonly type: "string"; readonly description: string } };
    readonly required: string[];
    readonly additionalProperties: false;
  };
  execute(input: { readonly reference?: unknown }): Promise<string>;
}

const REFERENCE = "the reference that the earlier call's answer gave: nt1_ and 52 characters";

const OPTIONS = ["name"];

export function statusTool(nt: Pick<Guarding, "status">, options: { name?: string } = {}): StatusTool {
  if (typeof nt?.status !== "function") {
    throw configError("statusTool: the first argument must be what nevertwice() returned.");
  }
  const wrong = Object.keys(options).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("statusTool", wrong, OPTIONS);
  const { name = STATUS_TOOL } = options;
  return {
    name,
    description:
      "Says the outcome of an earlier tool call that was answered with a reference (nt1_…): done, in progress, may have happened, did not happen. Ask it before you repeat a call. It changes nothing.",
    parameters: {
      type: "object",
      properties: { reference: { type: "string", description: REFERENCE } },
      required: ["reference"],
      additionalProperties: false,
    },
    async execute(input) {
      // A model may call a tool without any input.
      const reference = (input as { reference?: unknown } | null | undefined)?.reference;
      const key = typeof reference === "string" ? reference.trim() : "";
      if (!isKey(key)) return `That is no reference. Give ${REFERENCE}.`;
      try {
        return tellStatus(await nt.status({ key }));
      } catch (error) {
        if (isStoreUnavailable(error)) return tellStatusUnavailable();
        throw error;
      }
    },
  };
}
