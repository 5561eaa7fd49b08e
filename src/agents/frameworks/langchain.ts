/**
 * Tools of LangChain and LangGraph: a tool's own `_call`, or the calls of a whole agent by a middleware.
 * LangChain calls a tool in two ways. A call of a model has an id, and its answer is a ToolMessage: there the guard speaks in
 * the message's text and status. Any other call, `tool.invoke(args)` in a program or in a node of a graph, gets what the
 * tool's function returned: there a repeat is the first result as it was, and a refusal is thrown.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { configError } from "../../core/errors.ts";
import { type Answer, guardTool, refusalError } from "../guard-tool.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  checkGuarding,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  lifted,
  type NamesOf,
  noConversation,
  optionsOfTool,
  requireWhose,
  type ToolsOptions,
} from "../tool/options.ts";
import { perSession } from "../tool/session-money.ts";
import { guardEach } from "../tool/set.ts";
import type { Turn } from "../tool/turns.ts";
import {
  codecOfCalls,
  isKeptMessage,
  type MessageFields,
  type MessageMaker,
  madeMessage,
  madeOf,
  messageCodec,
  pairCodec,
  remadeMessage,
  withNote,
} from "./langchain-message.ts";
import { requireFramework } from "./version.ts";

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
  readonly schema?: unknown;
}

interface Callable extends LangChainTool {
  /** Checks the arguments, runs `_call`, and makes a ToolMessage of its result where a model has called. */
  call(input: unknown, config?: LangChainCall, ...rest: unknown[]): Promise<unknown>;
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

/** What this call of a model is told, beside the tool's result. */
interface Told {
  note?: string;
  fields?: Partial<MessageFields>;
}

/** Undefined: no model reads the answer. */
const telling = new AsyncLocalStorage<Told | undefined>();

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
  const where = `guardLangChainTool(${JSON.stringify(tool.name)})`;
  requireWhose(options, where);
  if (options.readOnly === true) return tool;
  requireFramework("@langchain/core", where);
  requireKey(tool.schema, options, where);
  const { tenant, agent = agentName, turn = turnOf, ...rest } = options;
  const guarded = guardTool<AnyInput, { config: LangChainCall; runManager: RunManager | undefined }, unknown>(
    nt,
    {
      ...rest,
      scope: scopeOf(options, tool.name),
      ...(tenant !== undefined && { tenant: lifted(tenant, configIn) }),
      agent: lifted(agent, configIn),
      turn: ({ config }) => turn(config),
      name: tool.name,
    },
    // What the tool calls itself is another call.
    (input, { config, runManager }) =>
      telling.run(undefined, async () => finished(own._call(input, runManager, config), runManager)),
    tool.responseFormat === "content_and_artifact" ? pairCodec : messageCodec,
  );
  const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)) as T & Callable;
  const _call = async (input: unknown, runManager?: RunManager, config: LangChainCall = {}) => {
    const answer = await guarded.answer(input as AnyInput, { config, runManager });
    const told = telling.getStore();
    if (answer.kind === "refused") {
      if (told === undefined) throw refusalError(answer, tool.name);
      told.fields = { status: "error" };
      return asContent(answer.text, tool);
    }
    if (answer.note === null) return answer.result;
    return repeated(answer.result, answer.note, told, tool);
  };
  const call: Callable["call"] = async (input, config, ...more) => {
    if (!isModelsCall(input, config)) return telling.run(undefined, () => own.call.call(copy, input, config, ...more));
    const told: Told = {};
    const message = await telling.run(told, () => own.call.call(copy, input, config, ...more));
    return remadeMessage(message, told.fields, told.note);
  };
  for (const [name, value] of Object.entries({ _call, ...(typeof own.call === "function" && { call }) }))
    Object.defineProperty(copy, name, { value, writable: true, configurable: true });
  return copy;
}

/** As LangChain tells it: by the id that the answer will carry. */
function isModelsCall(input: unknown, config: LangChainCall | undefined): boolean {
  const given = input as { readonly type?: unknown; readonly id?: unknown } | null | undefined;
  const id = (given?.type === "tool_call" ? given.id : undefined) || config?.toolCall?.id;
  return typeof id === "string" && id !== "";
}

/** The result of the first call in its own type. A message of the tool's own is made again by LangChain, with its fields. */
function repeated(result: unknown, note: string, told: Told | undefined, tool: LangChainTool): unknown {
  if (told !== undefined) told.note = note;
  if (!isKeptMessage(result)) return result;
  const { content, ...fields } = result.message;
  if (told === undefined) return madeMessage({ ...result.message, tool_call_id: "" });
  told.fields = fields;
  return asContent(content, tool);
}

type Scoped = { readonly config: LangChainCall };

function scopeOf(
  { scope }: GuardOptions<LangChainCall>,
  tool: string,
): NonNullable<GuardOptions<Scoped>["scope"]> | null {
  if (scope === null || typeof scope === "string") return scope;
  if (scope === undefined) return perSession(({ config }: Scoped) => threadOf(config, tool));
  return ({ config }) => scope(config);
}

function configIn({ config }: Scoped): LangChainCall {
  return config;
}

interface Message {
  readonly tool_calls?: readonly { readonly id?: string; readonly name: string; readonly args: unknown }[];
}

/** The message that a call came with lists all calls of its turn; a graph that is resumed has it again. */
function turnOf({ toolCall, state, configurable }: LangChainCall): Turn | undefined {
  const call = toolCall?.id;
  // What the graph's node was given, also where the node itself calls the tool.
  const given = state ?? configurable?.__pregel_scratchpad?.currentTaskInput;
  const messages = (Array.isArray(given) ? given : given?.messages) as readonly Message[] | undefined;
  if (call === undefined || !Array.isArray(messages)) return undefined;
  const { tool_calls } =
    messages.findLast((one) => one?.tool_calls?.some(({ id }: { id?: string }) => id === call)) ?? {};
  return tool_calls === undefined ? undefined : { call, calls: tool_calls };
}

/** The name that createAgent({ name }) was given, as a tool finds it. A middleware is not given it. */
function agentName({ metadata }: LangChainCall): string | undefined {
  return (metadata as { readonly lc_agent_name?: string } | undefined)?.lc_agent_name;
}

function threadOf({ configurable }: LangChainCall, tool: string): string {
  const thread = configurable?.thread_id;
  if (thread !== undefined && thread !== null && thread !== "") return String(thread);
  throw noConversation(
    tool,
    "it came without a thread",
    "invoke the agent or the tool with { configurable: { thread_id } }",
  );
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

function asContent(content: unknown, { responseFormat }: LangChainTool): unknown {
  return responseFormat === "content_and_artifact" ? [content, undefined] : content;
}

// ---- a whole agent -------------------------------------------------------------------------------------------------

interface ToolRequest {
  readonly toolCall: { readonly name: string; readonly args: unknown; readonly id?: string };
  readonly state?: unknown;
  readonly runtime?: LangChainCall;
}

export interface ToolCallsOptions extends ToolsOptions<LangChainCall> {
  /** The class itself, from @langchain/core/messages: answers are made of it. */
  readonly ToolMessage: MessageMaker;
}

/** For `createMiddleware({ name: "nevertwice", wrapToolCall: guardToolCalls(nt, { ToolMessage }) })`. */
export function guardToolCalls(nt: Guarding, { ToolMessage, ...options }: ToolCallsOptions = {} as ToolCallsOptions) {
  checkGuarding(nt, "guardToolCalls");
  checkToolsOptions(options, "guardToolCalls");
  if (typeof ToolMessage !== "function") {
    throw configError("guardToolCalls: pass the class ToolMessage of @langchain/core/messages: { ToolMessage }.");
  }
  requireFramework("langchain", "guardToolCalls");
  const message = (fields: MessageFields) => new ToolMessage(fields as never);
  return async <Q extends object, A>(request: Q, handler: (request: Q) => A | Promise<A>): Promise<A> => {
    const { toolCall, state, runtime } = request as unknown as ToolRequest;
    const own = optionsOfTool(options, toolCall.name);
    if (own === null || own.readOnly === true) return handler(request);
    const { tenant, agent = agentName, turn = turnOf, ...rest } = own;
    const guarded = guardTool<AnyInput, { config: LangChainCall }, unknown>(
      nt,
      {
        ...rest,
        scope: scopeOf(options, toolCall.name),
        ...(tenant !== undefined && { tenant: lifted(tenant, configIn) }),
        agent: lifted(agent, configIn),
        turn: ({ config }) => turn(config),
        name: toolCall.name,
        classify: (error) => (error instanceof NotBegun ? "refused" : own.classify?.(error)),
      },
      () => watched(request, handler),
      codecOfCalls(toolCall.name),
    );
    const answer = await guarded.answer(toolCall.args as AnyInput, { config: { ...runtime, toolCall, state } });
    const failure = answer.kind === "refused" && answer.outcome?.status === "failed" ? answer.outcome.error : null;
    if (failure instanceof NotBegun) throw failure.asItWas;
    return messageOf(answer, toolCall, message) as A;
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
  let returned: unknown;
  const { _call } = tool;
  const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool)) as object;
  const value = (...args: Parameters<Callable["_call"]>) => {
    begun = true;
    const result = _call.apply(copy, args);
    Promise.resolve(result).then(
      (one) => {
        returned = one;
      },
      () => {},
    );
    return result;
  };
  Object.defineProperty(copy, "_call", { value, writable: true, configurable: true });
  try {
    const answer = await handler({ ...request, tool: copy });
    if (returned instanceof Error) madeOf(answer, returned);
    return answer;
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
