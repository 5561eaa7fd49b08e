/** What the answers of one tool mean beyond what they say: the user declined what it asked, or its task was cancelled. */
import { classify } from "../../core/classify.ts";
import { messageOf } from "../../core/errors.ts";
import { isUnclassified } from "../../core/way-out.ts";
import type { Verdictish } from "../../engine/definition.ts";
import type { ResultCodec } from "../guard-tool.ts";
import { soundsInterrupted } from "../tool/interrupted.ts";
import type { ErrorMeaning, ToolOptions } from "../tool/options.ts";
import type { Elicitations } from "./elicitation.ts";
import { mcpCodec, type ToolResult, textOf } from "./result.ts";
import { type TaskEnd, TaskGone } from "./tasks.ts";

export interface JudgedOptions {
  /** What a declined question means; what was asked before it decides unless given. */
  readonly declined?: ErrorMeaning | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
  readonly errors?: ToolOptions<any, any>["errors"];
  /** False: an answer that leaves a doubt counts as an answer, as an error does there. */
  readonly doubts?: boolean;
}

export class Judged {
  readonly #options: JudgedOptions;
  readonly #meanings = new WeakMap<object, ErrorMeaning>();
  readonly #verdicts = new WeakMap<object, Verdictish>();

  constructor(options: JudgedOptions) {
    this.#options = options;
  }

  readonly codec: ResultCodec<ToolResult> = {
    ...mcpCodec,
    meaning: (result) => (isObject(result) ? this.#meanings.get(result) : undefined),
  };

  verdict(error: unknown): Verdictish | undefined {
    return isObject(error) ? this.#verdicts.get(error) : undefined;
  }

  /** One run of the tool, and what its user answered meanwhile. */
  async run(asked: Elicitations, tool: () => Promise<unknown>): Promise<ToolResult> {
    const { declined, doubts = true } = this.#options;
    let result: unknown;
    try {
      result = await tool();
    } catch (error) {
      const isGone = error instanceof TaskGone;
      const verdict = isGone ? "doubt" : verdictOnDeclined(error, declined ?? asked.declined);
      if (isObject(error) && verdict !== undefined && (isGone || asked.declined !== null))
        this.#verdicts.set(error, verdict);
      throw error;
    }
    if (asked.declined !== null && isObject(result) && !this.#meanings.has(result)) {
      const meaning = declined ?? meaningOfDeclined(result, asked.declined);
      // "answer": as if nothing had been asked.
      if (declined !== "answer" && (doubts || meaning !== "doubt")) this.#meanings.set(result, meaning);
    }
    return result as ToolResult;
  }

  /** What a call whose task has ended returns. */
  ended({ status, by, result }: TaskEnd): ToolResult {
    if (status === "completed") return result;
    const failed = { ...result, isError: true };
    // A tool that says itself that it stopped has stopped. After a client's tasks/cancel its work may go on.
    if (status === "cancelled") this.#meanings.set(failed, by === "tool" ? "not-done" : this.#ofError(failed));
    return failed;
  }

  #ofError(result: ToolResult): ErrorMeaning {
    const { errors = "doubt" } = this.#options;
    return typeof errors === "function" ? errors(result) : errors;
  }
}

/** An error that follows a decline reports it, unless a rule knows the error, or it reads like a lost answer. */
function verdictOnDeclined(error: unknown, meaning: ErrorMeaning | null): Verdictish | undefined {
  if (meaning !== "not-done") return meaning === "doubt" ? "doubt" : undefined;
  const verdict = classify(error, 0);
  const isOpen = verdict.kind === "doubt" && isUnclassified(verdict.why);
  return isOpen && !soundsInterrupted(apartFromCancelling(messageOf(error))) ? "refused" : undefined;
}

function meaningOfDeclined(result: object, declined: "not-done" | "doubt"): ErrorMeaning {
  const said = (result as ToolResult).isError === true ? (textOf(result as ToolResult) ?? "") : "";
  return soundsInterrupted(apartFromCancelling(said)) ? "doubt" : declined;
}

/** "Cancelled by the user" is no lost answer. */
function apartFromCancelling(text: string): string {
  return text.replace(/\b(?:cancel|abort|terminat|interrupt)\w*/gi, "");
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
