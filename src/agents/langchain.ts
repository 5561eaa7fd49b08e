/** Tools of LangChain and LangGraph: a tool's own `_call`, or the calls of a whole agent by a middleware. */
import { configError } from "../core/errors.ts";
import { type Answer, guardTool, type ResultCodec } from "./guard-tool.ts";
import { perSession } from "./session-money.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  checkGuarding,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  lifted,
  type NamesOf,
  optionsOfTool,
  requireWhose,
  type ToolsOptions,
} from "./tool-options.ts";
import { guardEach } from "./toolset.ts";

/** What LangChain hands to a tool beside its input. */
export interface LangChainCall {
  // biome-ignore lint/suspicious/noExplicitAny: as LangChain has it: the program's own fields
  readonly configurable?: Readonly<Record<string, any>>;
  readonly toolCall?: { readonly id?: string };
  readonly [field: string]: unknown;
}

/** A StructuredTool, by shape. */
export interface LangChainTool {
  readonly name: string;
  readonly responseFormat?: string;
}

interface Callable extends LangChainTool {
  _call(input: unknown, runManager?: RunManager, config?: LangChainCall): unknown;
}

interface RunManager {
  handleToolEvent?(chunk: unknown): unknown;
}

/**
 * A list or a record of tools: `guardLangChainTools(nt, tools, { tools: { send_mail: { key: ["to"], errors: "not-done" } } })`. The
 * scope is the thread (`configurable.thread_id`) unless `scope` says otherwise. `errors: "not-done"` only for a tool whose errors
 * mean that nothing happened.
 */
export function guardLangChainTools<T extends readonly LangChainTool[] | Readonly<Record<string, LangChainTool>>>(
  nt: Guarding,
  tools: T,
  options: ToolsOptions<LangChainCall, NamesOf<NoInfer<T>>> = {},
): T {
  return guardEach<LangChainTool, LangChainCall>(tools, options as ToolsOptions<LangChainCall>, {
    where: "guardLangChainTools",
    nameOf: ({ name }) => name,
    guard: (tool, own) => guardLangChainTool(nt, tool, own),
  }) as T;
}

/** One tool: the same tool with a guarded `_call`. */
export function guardLangChainTool<T extends LangChainTool>(
  nt: Guarding,
  tool: T,
  options: AnyToolOptions & GuardOptions<LangChainCall> = {},
): T {
  const own = tool as unknown as Callable;
  if (typeof own?._call !== "function") {
    throw configError(
      "guardLangChainTool: the second argument must be a tool made by tool() or a StructuredTool: it has no _call().",
    );
  }
  requireWhose(options, `guardLangChainTool(${JSON.stringify(tool.name)})`);
  if (options.readOnly === true) return tool;
  const { tenant, agent = agentName, ...rest } = options;
  const guarded = guardTool<AnyInput, { config: LangChainCall; runManager: RunManager | undefined }, unknown>(
    nt,
    {
      ...rest,
      scope: scopeOf(options),
      ...(tenant !== undefined && { tenant: lifted(tenant, configIn) }),
      agent: lifted(agent, configIn),
      name: tool.name,
    },
    (input, { config, runManager }) => finished(own._call(input, runManager, config), runManager),
    messageCodec,
  );
  const _call = async (input: unknown, runManager?: RunManager, config: LangChainCall = {}) => {
    const answer = await guarded.answer(input as AnyInput, { config, runManager });
    if (answer.kind === "refused") return asContent(answer.text, tool);
    return answer.note === null ? answer.result : noted(answer.result, answer.note, tool);
  };
  const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)) as T;
  Object.defineProperty(copy, "_call", { value: _call, writable: true, configurable: true });
  return copy;
}

type Scoped = { readonly config: LangChainCall };

function scopeOf({ scope }: GuardOptions<LangChainCall>): NonNullable<GuardOptions<Scoped>["scope"]> | null {
  if (scope === null || typeof scope === "string") return scope;
  if (scope === undefined) return perSession(({ config }: Scoped) => threadOf(config));
  return ({ config }) => scope(config);
}

function configIn({ config }: Scoped): LangChainCall {
  return config;
}

/** The name that createAgent({ name }) was given, as a tool finds it. A middleware is not given it. */
function agentName({ metadata }: LangChainCall): string | undefined {
  return (metadata as { readonly lc_agent_name?: string } | undefined)?.lc_agent_name;
}

function threadOf({ configurable }: LangChainCall): string | null {
  const thread = configurable?.thread_id;
  return thread === undefined || thread === null ? null : String(thread);
}

/** A tool that yields shows its chunks to whoever listens; its return value is the result. */
async function finished(value: unknown, runManager: RunManager | undefined): Promise<unknown> {
  const given = (await value) as AsyncGenerator<unknown> | undefined;
  if (typeof given !== "object" || given === null || typeof given.next !== "function") return given;
  for (;;) {
    const { done, value: chunk } = await given.next();
    if (done) return chunk;
    await runManager?.handleToolEvent?.(chunk);
  }
}

function asContent(text: string, { responseFormat }: LangChainTool): unknown {
  return responseFormat === "content_and_artifact" ? [text, undefined] : text;
}

function noted(result: unknown, note: string, { responseFormat }: LangChainTool): unknown {
  if (responseFormat === "content_and_artifact" && Array.isArray(result)) return [withNote(result[0], note), result[1]];
  return withNote(result, note);
}

function withNote(content: unknown, note: string): unknown {
  if (Array.isArray(content)) return [{ type: "text", text: note }, ...content];
  return `${note}\n${typeof content === "string" ? content : JSON.stringify(content)}`;
}

// ---- a whole agent -------------------------------------------------------------------------------------------------

interface MessageFields {
  readonly content: unknown;
  readonly name?: string;
  readonly status?: string;
  readonly artifact?: unknown;
  readonly tool_call_id: string;
}

interface ToolRequest {
  readonly toolCall: { readonly name: string; readonly args: unknown; readonly id?: string };
  readonly runtime?: LangChainCall;
}

export interface ToolCallsOptions extends ToolsOptions<LangChainCall> {
  /** The class itself, from @langchain/core/messages: answers are made of it. */
  readonly ToolMessage: new (
    fields: never,
  ) => object;
}

/** For `createMiddleware({ name: "nevertwice", wrapToolCall: guardToolCalls(nt, { ToolMessage }) })`. */
export function guardToolCalls(nt: Guarding, { ToolMessage, ...options }: ToolCallsOptions = {} as ToolCallsOptions) {
  checkGuarding(nt, "guardToolCalls");
  checkToolsOptions(options, "guardToolCalls");
  if (typeof ToolMessage !== "function") {
    throw configError("guardToolCalls: pass the class ToolMessage of @langchain/core/messages: { ToolMessage }.");
  }
  const message = (fields: MessageFields) => new ToolMessage(fields as never);
  return async <Q extends object, A>(request: Q, handler: (request: Q) => A | Promise<A>): Promise<A> => {
    const { toolCall, runtime = {} } = request as unknown as ToolRequest;
    const own = optionsOfTool(options, toolCall.name);
    if (own === null || own.readOnly === true) return handler(request);
    const { tenant, agent = agentName, ...rest } = own;
    const guarded = guardTool<AnyInput, { config: LangChainCall }, unknown>(
      nt,
      {
        ...rest,
        scope: scopeOf(options),
        ...(tenant !== undefined && { tenant: lifted(tenant, configIn) }),
        agent: lifted(agent, configIn),
        name: toolCall.name,
        classify: (error) => (error instanceof NotBegun ? "refused" : own.classify?.(error)),
      },
      () => watched(request, handler),
      callCodec(toolCall.name),
    );
    try {
      const answer = await guarded.answer(toolCall.args as AnyInput, { config: runtime });
      return messageOf(answer, toolCall, message) as A;
    } catch (error) {
      throw error instanceof NotBegun ? error.asItWas : error;
    }
  };
}

/** The arguments did not fit the tool's schema; its error goes to the agent as it was. */
class NotBegun extends Error {
  override readonly name = "NotBegun";
  readonly asItWas: unknown;

  constructor(asItWas: unknown) {
    super("the arguments do not fit the tool's schema");
    this.asItWas = asItWas;
  }
}

/**
 * Tells arguments that this tool's schema refused from a schema error inside the tool, which may come after an effect:
 * both have one shape, so the tool's own function says whether it was begun.
 */
async function watched<Q extends object, A>(request: Q, handler: (request: Q) => A | Promise<A>): Promise<A> {
  const { tool } = request as { readonly tool?: Partial<Callable> };
  if (typeof tool?._call !== "function") return handler(request);
  let begun = false;
  const { _call } = tool;
  const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)) as object;
  const value = (...args: Parameters<Callable["_call"]>) => {
    begun = true;
    return _call.apply(copy, args);
  };
  Object.defineProperty(copy, "_call", { value, writable: true, configurable: true });
  try {
    return await handler({ ...request, tool: copy });
  } catch (error) {
    throw !begun && isUnparsed(error) ? new NotBegun(error) : error;
  }
}

const UNPARSED: ReadonlySet<unknown> = new Set(["ToolInvocationError", "ToolInputParsingException"]);

/** LangChain's own errors for it have a brand or a class, but no name of their own. */
function isUnparsed(error: unknown): boolean {
  const given = (error ?? {}) as { readonly "~brand"?: unknown; readonly name?: unknown };
  return [given["~brand"], given.name, given.constructor?.name].some((one) => UNPARSED.has(one));
}

/** A tool that is not there was not run; LangChain answers with the names of those that are. */
function callCodec(name: string): ResultCodec<unknown> {
  const said = `Error: ${name} is not a valid tool, try one of [`;
  const isMissing = (result: unknown) =>
    isToolMessage(result) && result.status === "error" && String(result.content).startsWith(said);
  return { ...messageCodec, meaning: (result) => (isMissing(result) ? "not-done" : undefined) };
}

function messageOf(
  answer: Answer<unknown>,
  { name, id }: ToolRequest["toolCall"],
  make: (fields: MessageFields) => object,
): unknown {
  const tool_call_id = id ?? "";
  if (answer.kind === "refused") return make({ content: answer.text, name, tool_call_id, status: "error" });
  if (answer.note === null) return answer.result;
  const { content, artifact, status } = answer.result as MessageFields;
  const kept = { ...(artifact !== undefined && { artifact }), ...(status !== undefined && { status }) };
  return make({ content: withNote(content, answer.note), name, tool_call_id, ...kept });
}

/** ToolMessages, told by shape, are kept as their fields; anything else as it is. */
const messageCodec: ResultCodec<unknown> = {
  isError: (result) => isToolMessage(result) && result.status === "error",
  // Kept without the id of its call.
  isKeptError: (stored) => isErrorMessage(stored),
  said: (result) => (isToolMessage(result) && typeof result.content === "string" ? result.content : undefined),
  pack: (result) => {
    if (!isToolMessage(result)) return result;
    const { content, artifact, status } = result;
    return { content, ...(artifact !== undefined && { artifact }), ...(status !== undefined && { status }) };
  },
};

function isErrorMessage(value: unknown): boolean {
  const { content, status } = (value ?? {}) as Partial<MessageFields>;
  return content !== undefined && status === "error";
}

function isToolMessage(value: unknown): value is MessageFields {
  return typeof value === "object" && value !== null && "tool_call_id" in value && "content" in value;
}
