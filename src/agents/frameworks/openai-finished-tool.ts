/**
 * A finished tool of the OpenAI Agents SDK: `invoke` is wrapped. It takes the arguments as text, checks them, runs the
 * tool and turns an error into text; the tool's own function is out of reach. So the guard has to tell by the answer
 * whether the tool failed, and by the SDK's own notice whether it was begun.
 */
import { isNevertwiceError, messageOf, unmarked } from "../../core/errors.ts";
import type { CheckContext } from "../../engine/check-context.ts";
import { type GuardedTool, guardTool, type ResultCodec } from "../guard-tool.ts";
import { requireKey } from "../tool/fields.ts";
import type { AnyInput, AnyToolOptions, Guarding, GuardOptions } from "../tool/options.ts";
import { type OpenAiCall, openAiTurn, toModel } from "./openai-result.ts";

/** A tool by shape: what `tool()` and its kin return. */
export interface OpenAiTool {
  readonly type: string;
  readonly name?: string;
}

type Invoke = (runContext: unknown, input: string, details?: object) => Promise<unknown>;

interface FinishedTool extends OpenAiTool {
  readonly name: string;
  readonly invoke: Invoke;
  readonly parameters?: unknown;
  readonly timeoutMs?: number;
  readonly outputSchema?: unknown;
  readonly errorFunction?: ((runContext: unknown, error: unknown, details?: object) => unknown) | null;
}

interface FinishedCall extends OpenAiCall {
  /** The arguments as the model wrote them. */
  readonly text: string;
}

/** An agent as a tool (`agent.asTool()`, told by its `on`) may stop for an approval inside: it is a run, not an effect. */
export function isFinishedTool(tool: OpenAiTool): boolean {
  const { type, name, invoke, on } = tool as Partial<FinishedTool> & { readonly on?: unknown };
  return type === "function" && typeof name === "string" && typeof invoke === "function" && typeof on !== "function";
}

export function guardFinishedTool<T extends OpenAiTool>(
  nt: Guarding,
  given: T,
  options: AnyToolOptions & GuardOptions<OpenAiCall>,
): T {
  if (options.readOnly === true) return given;
  const tool = given as unknown as FinishedTool;
  requireKey(tool.parameters, options, `guardOpenAiTool(${JSON.stringify(tool.name)})`);
  const guarded = guardInvoke(nt, tool, options);
  const invoke: Invoke = async (runContext, text, details) => {
    const input = argumentsOf(text, tool);
    // Not JSON: the tool refuses it by itself before it begins.
    if (input === undefined) return tool.invoke(runContext, text, details);
    try {
      const call = { runContext, details, text } as FinishedCall;
      return toModel(await guarded.answer(input.value as AnyInput, call), tool, tool.name);
    } catch (error) {
      if (error instanceof NotBegun) return error.asItWas();
      if (error instanceof Stopped) return error.told(tool, runContext, details);
      if (tool.outputSchema !== undefined && typeof tool.errorFunction === "function")
        return tool.errorFunction(runContext, error, details);
      // What the guard itself refused (a key that cannot be made, a store that is down) is for the model to read.
      if (tool.outputSchema === undefined && isNevertwiceError(error)) return error.message;
      throw error;
    }
  };
  // Symbols carry a tool's namespace: all of its own properties are kept, as the SDK's own copies do.
  const copy = Object.create(Object.getPrototypeOf(given), Object.getOwnPropertyDescriptors(given)) as T;
  return Object.defineProperty(copy, "invoke", { value: invoke, writable: true, configurable: true, enumerable: true });
}

function guardInvoke(
  nt: Guarding,
  tool: FinishedTool,
  options: AnyToolOptions & GuardOptions<OpenAiCall>,
): GuardedTool<AnyInput, FinishedCall, unknown> {
  const invoke = watching(tool);
  const { check } = options;
  return guardTool<AnyInput, FinishedCall, unknown>(
    nt,
    {
      turn: openAiTurn,
      ...(options as AnyToolOptions & GuardOptions<FinishedCall>),
      name: tool.name,
      ...(check !== undefined && {
        check: async (input: AnyInput, context: CheckContext) => {
          try {
            await check(input, context);
          } catch (error) {
            throw new Stopped(error);
          }
        },
      }),
      classify: (error) => (error instanceof NotBegun ? "refused" : options.classify?.(error)),
    },
    (_input, { runContext, details, text }) => invoke(runContext, text, details),
    codecOf(tool, options),
  );
}

function argumentsOf(text: string, { parameters }: FinishedTool): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    // A tool without parameters may take a plain text.
    return typeof parameters === "object" ? undefined : { value: text };
  }
}

// ---- whether it failed ---------------------------------------------------------------------------------------------

/** Versions before 0.20 add what went wrong; 0.20 says no more than this. */
const FAILED = /^An error occurred while running the tool\. Please try again\.(?: Error: (?<said>.*))?$/s;

/** A function in `errors` sees every answer, since only the user knows the words of an errorFunction. */
function codecOf({ name, timeoutMs }: FinishedTool, { errors }: AnyToolOptions): ResultCodec<unknown> {
  const timedOut = `Tool '${name}' timed out after ${timeoutMs}ms.`;
  return {
    isError: (result) => typeof errors === "function" || isDefaultFailure(result),
    // The SDK gave up waiting for the tool, which goes on: no error of the tool's own.
    meaning: (result) => (typeof errors !== "function" && result === timedOut ? "doubt" : undefined),
    said: (result) => {
      if (typeof result !== "string") return undefined;
      // "Please try again" is the one thing that must not be passed on.
      return isDefaultFailure(result) ? FAILED.exec(result)?.groups?.said : result;
    },
  };
}

function isDefaultFailure(result: unknown): boolean {
  return typeof result === "string" && FAILED.test(result);
}

// ---- whether it began ----------------------------------------------------------------------------------------------

/** The arguments did not fit the tool's schema: it was not begun, and its answer or error goes to the model as it was. */
class NotBegun extends Error {
  override readonly name = "NotBegun";
  readonly #answer: () => unknown;

  constructor(answer: () => unknown) {
    super("the arguments do not fit the tool's schema");
    this.#answer = answer;
  }

  asItWas(): unknown {
    return this.#answer();
  }
}

/** The check of the tool's options threw, outside of the tool and its errorFunction. */
class Stopped extends Error {
  override readonly name = "Stopped";

  constructor(cause: unknown) {
    super(messageOf(unmarked(cause)), { cause });
  }

  /** As text, which a tool with an output schema has no place for: there its errorFunction decides, or the run ends. */
  told({ errorFunction, outputSchema }: FinishedTool, runContext: unknown, details?: object): unknown {
    if (outputSchema === undefined) return this.message;
    const error = unmarked(this.cause);
    if (typeof errorFunction !== "function") throw error;
    return errorFunction(runContext, error, details);
  }
}

/** Under this symbol the SDK's runner hands over a callback that tool() calls right before the tool's own function. */
const PARSED_INPUT = "openai.agents.functionToolParsedInputCallback";

/** Invokes the tool, and throws NotBegun where it surely was not begun. */
function watching(tool: FinishedTool): Invoke {
  // A tool that nobody made with tool() may not announce itself at all: silence alone says nothing about it.
  let announces = false;
  return async (runContext, text, details) => {
    let begun = false;
    const watched = withNotice(details, () => {
      begun = true;
      announces = true;
    });
    const refused = (inTheSdksWords: boolean) => watched !== details && !begun && (announces || inTheSdksWords);
    try {
      const result = await tool.invoke(runContext, text, watched);
      if (refused(isDefaultFailure(result))) throw new NotBegun(() => result);
      return result;
    } catch (error) {
      if (error instanceof NotBegun || !refused(isInvalidInput(error))) throw error;
      throw new NotBegun(() => {
        throw error;
      });
    }
  };
}

/** The same details with the notice tapped; the very same where there is none: a tool invoked without a runner. */
function withNotice(details: object | undefined, notice: () => void): object | undefined {
  const symbol = Object.getOwnPropertySymbols(details ?? {}).find(({ description }) => description === PARSED_INPUT);
  if (details === undefined || symbol === undefined) return details;
  const told = (details as Record<symbol, ((input: unknown) => void) | undefined>)[symbol];
  const value = (input: unknown) => {
    notice();
    told?.(input);
  };
  const copy = Object.create(Object.getPrototypeOf(details), Object.getOwnPropertyDescriptors(details)) as object;
  return Object.defineProperty(copy, symbol, { value, writable: true, configurable: true, enumerable: true });
}

/** Thrown by a tool whose errorFunction is null. */
function isInvalidInput(error: unknown): boolean {
  return (error as { name?: unknown } | null)?.name === "InvalidToolInputError";
}
