/**
 * Tools of the OpenAI Agents SDK: the factory `tool()`, or tools it has made. The factory is the better place: there the
 * guard sees the very error a tool threw. A finished tool has turned it into text (agents/frameworks/openai-finished-tool.ts).
 */
import { configError } from "../../core/errors.ts";
import { guardTool } from "../guard-tool.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyInputs,
  type AnyToolOptions,
  checkGuarding,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  type NamesOf,
  optionsOfTool,
  requireScope,
  requireWhose,
  type ToolsOptions,
} from "../tool/options.ts";
import { guardEach } from "../tool/set.ts";
import { guardFinishedTool, isFinishedTool, type OpenAiTool } from "./openai-finished-tool.ts";
import { type OpenAiCall, openAiTurn, toModel } from "./openai-result.ts";
import { requireFramework } from "./version.ts";

export type { OpenAiTool } from "./openai-finished-tool.ts";
export { guardOpenAiMcpServer, type OpenAiMcpCall, type OpenAiMcpServer } from "./openai-mcp.ts";
export type { OpenAiCall } from "./openai-result.ts";

interface ToolDefinition {
  readonly name?: string;
  readonly parameters?: unknown;
  readonly outputSchema?: unknown;
  readonly execute: (input: unknown, runContext?: unknown, details?: unknown) => unknown;
}

type ToolFactory = (...args: never[]) => unknown;

/** Only a record has names that the compiler knows. */
type OpenAiNames<T> = T extends ToolFactory | OpenAiTool ? AnyInputs : NamesOf<T>;

/**
 * The factory: `const tool = guardOpenAiTools(nt, sdkTool, { scope, tools: { send_mail: { key: ["to"], errors: "not-done" } } })`,
 * used like `tool` itself; `errors: "not-done"` only for a tool whose errors mean that nothing happened. Or tools that are there already: one, a list as an Agent takes it, or a record. Types stay what they were.
 */
export function guardOpenAiTools<
  T extends ToolFactory | OpenAiTool | readonly OpenAiTool[] | Readonly<Record<string, OpenAiTool>>,
>(nt: Guarding, tools: T, given: ToolsOptions<OpenAiCall, OpenAiNames<NoInfer<T>>> = {}): T {
  const options = given as ToolsOptions<OpenAiCall>;
  if (typeof tools === "function") return guardFactory(nt, tools as ToolFactory, options) as T;
  if (isOneTool(tools)) return guardList(nt, [tools], options)[0] as T;
  return guardList(nt, tools as readonly OpenAiTool[], options) as unknown as T;
}

const EXAMPLE = "({ runContext }) => runContext?.context.userId";

/** One tool that is there already, with its own options. */
export function guardOpenAiTool<T extends OpenAiTool>(
  nt: Guarding,
  tool: T,
  options: AnyToolOptions & GuardOptions<OpenAiCall> = {},
): T {
  if (!isOneTool(tool)) throw notATool("guardOpenAiTool");
  if (isFinishedTool(tool)) {
    const where = `guardOpenAiTool(${JSON.stringify(tool.name)})`;
    requireWhose(options, where);
    requireScope(options, where, EXAMPLE);
    requireFramework("@openai/agents", where);
    return guardFinishedTool(nt, tool, options);
  }
  throw configError(
    `guardOpenAiTool: ${JSON.stringify(tool.name ?? tool.type)} is no function tool, and cannot be guarded here. A hosted tool runs elsewhere; of an agent as a tool, guard the tools inside.`,
  );
}

/** Hosted tools run elsewhere and agents as tools are runs of their own: both pass, unless options name them. */
function guardList(nt: Guarding, tools: readonly OpenAiTool[], options: ToolsOptions<OpenAiCall>) {
  return guardEach<OpenAiTool, OpenAiCall>(tools, options, {
    where: "guardOpenAiTools",
    also: "one tool, or the SDK's own tool() function",
    nameOf: (tool) => {
      if (!isOneTool(tool)) throw notATool("guardOpenAiTools");
      return tool.name ?? tool.type;
    },
    guard: (tool, own, name) => {
      if (!isOneTool(tool)) throw notATool("guardOpenAiTools");
      const isNamed = options.tools !== undefined && Object.hasOwn(options.tools, name) && own.readOnly !== true;
      return isFinishedTool(tool) || isNamed ? guardOpenAiTool(nt, tool, own) : tool;
    },
  }) as readonly OpenAiTool[];
}

function isOneTool(value: unknown): value is OpenAiTool {
  return typeof value === "object" && value !== null && typeof (value as OpenAiTool).type === "string";
}

function notATool(where: string) {
  return configError(
    `${where}: that is no tool of the OpenAI Agents SDK. Give its tool() function, or what tool() returned: one, a list, or a record.`,
  );
}

// ---- the factory ---------------------------------------------------------------------------------------------------

function guardFactory<F extends ToolFactory>(nt: Guarding, tool: F, options: ToolsOptions<OpenAiCall>): F {
  checkGuarding(nt, "guardOpenAiTools");
  checkToolsOptions(options, "guardOpenAiTools");
  requireScope(options, "guardOpenAiTools", EXAMPLE);
  requireFramework("@openai/agents", "guardOpenAiTools");
  const make = tool as unknown as (definition: ToolDefinition) => unknown;
  const guarded = (definition: ToolDefinition) => {
    const name = definition.name ?? definition.execute?.name;
    const own = name ? optionsOfTool(options, name) : null;
    return make(own === null || !name ? definition : guardDefinition(nt, name, definition, own));
  };
  return guarded as unknown as F;
}

function guardDefinition(
  nt: Guarding,
  name: string,
  definition: ToolDefinition,
  options: AnyToolOptions & GuardOptions<OpenAiCall>,
): ToolDefinition {
  if (options.readOnly !== true)
    requireKey(definition.parameters, options, `guardOpenAiTools: tool ${JSON.stringify(name)}`);
  const guarded = guardTool<AnyInput, OpenAiCall, unknown>(
    nt,
    { turn: openAiTurn, ...options, name },
    (input, { runContext, details }) => definition.execute(input, runContext, details),
  );
  return {
    ...definition,
    name,
    async execute(input, runContext, details) {
      const call = { runContext, details } as OpenAiCall;
      return toModel(await guarded.answer(input as AnyInput, call), definition, name);
    },
  };
}
