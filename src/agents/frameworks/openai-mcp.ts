/**
 * MCP servers of the OpenAI Agents SDK: `new Agent({ mcpServers: [guardOpenAiMcpServer(nt, server, …)] })`. The SDK makes tools of
 * what the server lists and calls them through the server object, so that is what is guarded. A server's own word about its
 * tools (readOnlyHint, idempotentHint) is taken from its list.
 */
import { configError, isNevertwiceError } from "../../core/errors.ts";
import { type GuardedTool, guardTool } from "../guard-tool.ts";
import { passesInProgram, type ToolHints } from "../mcp/hints.ts";
import { mcpCodec, mcpErrorMeaning, mcpResult, type ToolResult } from "../mcp/result.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  checkGuarding,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  isNamedTool,
  optionsOfTool,
  requireScope,
  type ToolsOptions,
} from "../tool/options.ts";
import { turnOfRun } from "./openai-result.ts";
import { requireFramework } from "./version.ts";

/** A server by shape: MCPServerStdio, MCPServerStreamableHttp, MCPServerSSE, or one of your own. */
export interface OpenAiMcpServer {
  readonly name: string;
  listTools(...args: never[]): Promise<readonly { readonly name: string }[]>;
  callTool(...args: never[]): Promise<unknown>;
  callToolResult?(...args: never[]): Promise<unknown>;
}

/** What a scope function gets. */
export interface OpenAiMcpCall {
  /** The run's own context object, `context` of `run(agent, input, { context })`. */
  // biome-ignore lint/suspicious/noExplicitAny: the program's own object, of a type that only the program knows
  readonly runContext: { readonly context?: any } | undefined;
  readonly serverName: string;
  readonly toolName: string;
}

type CallArguments = readonly [args: AnyInput | null, ...rest: unknown[]];

interface ListedTool {
  readonly name: string;
  readonly annotations?: ToolHints;
  readonly inputSchema?: unknown;
}

interface Target {
  readonly name: string;
  listTools(): Promise<readonly ListedTool[]>;
  callToolResult(tool: string, ...call: CallArguments): Promise<ToolResult>;
  readonly toolMetaResolver?: (context: MetaContext) => unknown;
}

interface MetaContext {
  readonly runContext: OpenAiMcpCall["runContext"];
  readonly arguments: AnyInput | null;
}

interface Ongoing extends OpenAiMcpCall {
  readonly call: CallArguments;
}

/** The server with guarded calls; all else is the server's own. */
export function guardOpenAiMcpServer<S extends OpenAiMcpServer>(
  nt: Guarding,
  server: S,
  options: ToolsOptions<OpenAiMcpCall> = {},
): S {
  const where = "guardOpenAiMcpServer";
  checkGuarding(nt, where);
  checkServer(server, where);
  checkToolsOptions(options, where);
  requireScope(options, where, "({ runContext }) => runContext?.context.userId");
  requireFramework("@openai/agents", where);
  return new Guarded(nt, server as unknown as Target, options).proxy() as unknown as S;
}

function checkServer(server: OpenAiMcpServer, where: string): void {
  if ((server as { type?: unknown } | null)?.type === "hosted_tool")
    throw configError(
      `${where}: a hosted MCP tool is called by OpenAI, not by this program, and cannot be guarded here. Connect to the server from the program (MCPServerStreamableHttp), or put nevertwice mcp in front of it.`,
    );
  if (typeof server?.callTool !== "function" || typeof server.listTools !== "function")
    throw configError(
      `${where}: the second argument must be an MCP server of the OpenAI Agents SDK, such as new MCPServerStdio({ … }).`,
    );
  if (typeof server.callToolResult !== "function")
    throw configError(
      `${where}: the server has no callToolResult(), so that an error it answers with cannot be told from a success. Update @openai/agents, or give your own server callToolResult().`,
    );
  // The SDK's own name for it: the command or the address. Neither says with which account the server acts.
  if (typeof server.name !== "string" || /^$|^(?:stdio|sse|streamable-http): /.test(server.name.trim()))
    throw configError(
      `${where}: the server has no name. Give it one, new MCPServerStdio({ name: "tracker", … }): it is part of every key, and two servers under one name would take each other's calls for repeats.`,
    );
}

class Guarded {
  readonly #nt: Guarding;
  readonly #server: Target;
  readonly #options: ToolsOptions<OpenAiMcpCall>;
  readonly #tools = new Map<string, GuardedTool<AnyInput, Ongoing, ToolResult>>();
  /** The run of a call, by its arguments: the SDK names it to the resolver of metadata, right before the call. */
  readonly #runs = new WeakMap<object, OpenAiMcpCall["runContext"]>();
  #hints: ReadonlyMap<string, ToolHints | undefined> | null = null;

  constructor(nt: Guarding, server: Target, options: ToolsOptions<OpenAiMcpCall>) {
    this.#nt = nt;
    this.#server = server;
    this.#options = options;
  }

  /** Methods run on the server itself: it may have private fields. */
  proxy(): Target {
    const own: Readonly<Record<PropertyKey, unknown>> = {
      listTools: () => this.#list(),
      callToolResult: (tool: string, ...call: CallArguments) => this.#call(tool, call),
      callTool: async (tool: string, ...call: CallArguments) => (await this.#call(tool, call)).content ?? [],
      toolMetaResolver: (context: MetaContext) => {
        if (context.arguments !== null) this.#runs.set(context.arguments, context.runContext);
        return this.#server.toolMetaResolver?.(context);
      },
    };
    const bound = new WeakMap<object, unknown>();
    return new Proxy(this.#server, {
      get: (target, property) => {
        if (Object.hasOwn(own, property)) return own[property];
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== "function" || property === "constructor") return value;
        if (!bound.has(value)) bound.set(value, value.bind(target));
        return bound.get(value);
      },
      set: (target, property, value) => Reflect.set(target, property, value, target),
    });
  }

  async #list() {
    const tools = await this.#server.listTools();
    this.#hints = new Map(tools.map(({ name, annotations }) => [name, annotations]));
    for (const { name, annotations, inputSchema } of tools) {
      const own = this.#optionsOf(name, annotations);
      if (own !== null) requireKey(inputSchema, own, `guardOpenAiMcpServer: tool ${JSON.stringify(name)}`);
    }
    return tools;
  }

  /** The SDK may have the list from elsewhere. One that cannot be had leaves the tool guarded. */
  async #hintsOf(tool: string): Promise<ToolHints | undefined> {
    if (this.#hints === null) await this.#list().catch(() => {});
    return this.#hints?.get(tool);
  }

  /** Null: its calls pass. */
  #optionsOf(tool: string, hints: ToolHints | undefined) {
    const own = optionsOfTool(this.#options, tool);
    const named = isNamedTool(this.#options, tool);
    return own === null || passesInProgram(own.readOnly, hints, { named }) ? null : own;
  }

  async #call(tool: string, call: CallArguments): Promise<ToolResult> {
    const own = this.#optionsOf(tool, await this.#hintsOf(tool));
    if (own === null) return this.#server.callToolResult(tool, ...call);
    const [args] = call;
    const runContext = args === null ? undefined : this.#runs.get(args);
    const ongoing = { runContext, serverName: this.#server.name, toolName: tool, call };
    try {
      return mcpResult(await this.#guardOf(tool, own).answer(args ?? {}, ongoing));
    } catch (error) {
      // What the guard itself refused is for the model to read: the SDK's words for an error are "please try again".
      if (!isNevertwiceError(error)) throw error;
      return { content: [{ type: "text", text: error.message }], isError: true };
    }
  }

  #guardOf(tool: string, options: AnyToolOptions & GuardOptions<OpenAiMcpCall>) {
    const known = this.#tools.get(tool);
    if (known !== undefined) return known;
    const guarded = guardTool<AnyInput, Ongoing, ToolResult>(
      this.#nt,
      {
        // The SDK makes the arguments of each call anew.
        turn: ({ runContext, call: [args] }: Ongoing) => turnOfRun(runContext, args),
        ...options,
        name: tool,
        action: options.action ?? `${this.#server.name}.${tool}`,
        errors: mcpErrorMeaning(options.errors),
      },
      (_args, { call }) => this.#server.callToolResult(tool, ...call),
      mcpCodec,
    );
    this.#tools.set(tool, guarded);
    return guarded;
  }
}
