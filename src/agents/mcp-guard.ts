/** The guards of one MCP server's tools, made as the calls come: what the proxy's transports share. */
import { createHash } from "node:crypto";
import { isNevertwiceError } from "../core/errors.ts";
import { unstorableIn } from "../core/storable-text.ts";
import { type AttemptContext, currentAttempt } from "../engine/context.ts";
import { type Answer, type GuardedTool, guardTool } from "./guard-tool.ts";
import { DEFAULT_WINDOW, type ProxyConfig, type ProxyToolConfig } from "./mcp-config.ts";
import { INVALID_PARAMS, isRefusedUnrun, RpcFailure, type ToolCall, type ToolInfo } from "./mcp-message.ts";
import { mcpCodec, mcpErrorMeaning, type ToolResult } from "./mcp-result.ts";
import { type CallTool, verifyCall } from "./mcp-verify.ts";
import { STATUS_TOOL, statusTool } from "./status-tool.ts";
import type { Guarding, ToolOptions } from "./tool-options.ts";

/** One call as a transport makes it. */
export interface ProxyCall {
  readonly message: ToolCall;
  /** Who calls, where the transport knows. */
  readonly principal?: string | undefined;
  /** Sends the call on and gives the server's answer; throws an RpcFailure for an error answer. */
  forward(message: ToolCall, key: string): Promise<ToolResult>;
}

export interface McpGuardOptions {
  readonly nt: Guarding;
  readonly config: ProxyConfig;
  /** Its name in the ledger. */
  readonly server: string;
  /** What tells this server from another of the same name: the command line, the URL. */
  readonly identity: string;
  /** For the person who wrote the config. */
  readonly note?: (text: string) => void;
}

type Arguments = Readonly<Record<string, unknown>>;

export class McpGuard {
  readonly #options: McpGuardOptions;
  readonly #tools = new Map<string, ToolInfo>();
  readonly #guards = new Map<string, GuardedTool<Arguments, ProxyCall, ToolResult>>();
  readonly #status;
  readonly #noted = new Set<string>();
  #listed = false;
  #callTool: CallTool | null = null;

  constructor(options: McpGuardOptions) {
    this.#options = options;
    this.#status = statusTool(options.nt);
  }

  /** From the server's own list, as it passes by; a page that is not its last leaves the rest to be asked for. */
  learn(tools: unknown, isLast = true): void {
    if (!Array.isArray(tools)) return;
    for (const tool of tools as ToolInfo[]) if (typeof tool?.name === "string") this.#tools.set(tool.name, tool);
    if (!isLast) return;
    this.#listed = true;
    this.#noteUnknown();
  }

  /** A misspelled name leaves the tool it meant with the defaults. Not an error: a server may show each client other tools. */
  #noteUnknown(): void {
    const { config, note } = this.#options;
    const named = Object.entries(config.tools ?? {}).flatMap(([tool, { verify }]) => [tool, verify?.tool ?? tool]);
    const missing = [...new Set(named)].filter((name) => !this.#tools.has(name) && !this.#noted.has(name));
    for (const name of missing) this.#noted.add(name);
    if (missing.length === 0) return;
    note?.(
      `the config names ${missing.map((name) => JSON.stringify(name)).join(", ")}, and the server has no such tool. It has: ${[...this.#tools.keys()].join(", ") || "none"}.`,
    );
  }

  /** Its tools may have changed: the next call asks again. */
  forget(): void {
    this.#listed = false;
  }

  /** Whether the server's list has to be asked for before a call of this tool can be judged. */
  needsList(tool: string): boolean {
    return !this.#listed && this.#configOf(tool) === undefined;
  }

  /** null: the call goes through untouched. */
  guarded(tool: string): boolean {
    const own = this.#configOf(tool);
    if (own?.readOnly !== undefined) return !own.readOnly;
    return own !== undefined || this.#tools.get(tool)?.annotations?.readOnlyHint !== true;
  }

  async answer(call: ProxyCall, callTool: CallTool): Promise<Answer<ToolResult>> {
    const { name, arguments: args = {} } = call.message.params;
    const own = this.#configOf(name);
    // A client may send any text as a name, and it would be kept as the action's.
    const unstorable = unstorableIn(name);
    if (unstorable !== null)
      throw new RpcFailure({
        code: INVALID_PARAMS,
        message: `Not run: the tool's name cannot be kept: ${unstorable}.`,
      });
    // A doubt is looked into over the connection of the latest call: an earlier one may be gone.
    this.#callTool = callTool;
    const guard = this.#guards.get(name) ?? this.#guard(name);
    this.#guards.set(name, guard);
    return guard.answer(own?.keyArgument === undefined ? args : without(args, own.keyArgument), call);
  }

  /** Whether a call goes on when its client has only stopped waiting. */
  finishes(tool: string): boolean {
    const { onTimeout = this.#options.config.onTimeout } = this.#configOf(tool) ?? {};
    return onTimeout === "finish";
  }

  /** An answer that came after its call was given up. It settles what it can; a doubt that was settled meanwhile stays so. */
  settleLate(tool: string, key: string, result: ToolResult): void {
    void this.#guards
      .get(tool)
      ?.settleLate(key, result)
      .catch(() => {});
  }

  /** The answer of the added status tool; null: the call is not for it. */
  async status({ params }: ToolCall): Promise<ToolResult | null> {
    if (this.#options.config.statusTool !== true || params.name !== STATUS_TOOL) return null;
    return { content: [{ type: "text", text: await this.#status.execute(params.arguments ?? {}) }] };
  }

  /** What the list of tools gets in addition. */
  get addedTools(): readonly object[] {
    if (this.#options.config.statusTool !== true) return [];
    const { name, description, parameters } = this.#status;
    return [{ name, description, inputSchema: parameters, annotations: { readOnlyHint: true } }];
  }

  #configOf(tool: string): ProxyToolConfig | undefined {
    const { tools } = this.#options.config;
    return tools !== undefined && Object.hasOwn(tools, tool) ? tools[tool] : undefined;
  }

  #guard(tool: string): GuardedTool<Arguments, ProxyCall, ToolResult> {
    const { nt, config, server } = this.#options;
    const own = this.#configOf(tool);
    const callTool: CallTool = (verify, args) => (this.#callTool as CallTool)(verify, args);
    return guardTool<Arguments, ProxyCall, ToolResult>(
      nt,
      {
        ...toolOptions(own, config, callTool),
        name: tool,
        action: `${server}/${tool}`,
        scope: (call) => this.#scope(call),
        ...(config.statusTool === true && { statusTool: STATUS_TOOL }),
        classify: (error) => (isRefusedUnrun(error) ? "refused" : undefined),
      },
      (args, call) => {
        const { key } = currentAttempt() as AttemptContext;
        return call.forward(withKey(call.message, args, own?.keyArgument, key), key);
      },
      mcpCodec,
    );
  }

  #scope({ principal }: ProxyCall): string {
    const { config, identity } = this.#options;
    return ["mcp", short(identity), short(principal ?? ""), config.scope ?? ""].join(":");
  }
}

/** A configured tool is guarded as an action is; one without config only for a window, whatever the server answered. */
function toolOptions(
  own: ProxyToolConfig | undefined,
  config: ProxyConfig,
  callTool: CallTool,
): ToolOptions<Arguments, ToolResult> {
  if (own === undefined) {
    return { keep: config.window ?? DEFAULT_WINDOW, retry: { attempts: 1 }, errors: mcpErrorMeaning("answer") };
  }
  const { verify, readOnly, keyArgument, onTimeout, errors, doubt, ...options } = own;
  const settled = typeof doubt === "object" ? doubt : {};
  const probe = (args: Arguments) => verifyCall(verify as NonNullable<typeof verify>, args, callTool);
  const policy = verify === undefined ? doubt : { ...settled, probe, quietFor: verify.quietFor };
  return { ...options, ...(policy !== undefined && { doubt: policy }), errors: mcpErrorMeaning(errors) };
}

function withKey(message: ToolCall, args: Arguments, keyArgument: string | undefined, key: string): ToolCall {
  if (keyArgument === undefined) return message;
  return { ...message, params: { ...message.params, arguments: { ...args, [keyArgument]: key } } };
}

function without(args: Arguments, name: string): Arguments {
  return Object.fromEntries(Object.entries(args).filter(([one]) => one !== name));
}

function short(text: string): string {
  return text === "" ? "" : createHash("sha256").update(text).digest("base64url").slice(0, 16);
}

/** What the guard itself refused (a key that cannot be made, a store that is down): told to the model, nothing was run. */
export function refusalOfError(error: unknown): ToolResult | null {
  if (!isNevertwiceError(error)) return null;
  return { isError: true, content: [{ type: "text", text: `Not run: ${error.message}` }] };
}
