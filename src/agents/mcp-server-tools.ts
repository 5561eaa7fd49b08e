/**
 * Tools of an MCP server built with the official SDK, 1.x (`@modelcontextprotocol/sdk`) or 2.x
 * (`@modelcontextprotocol/server`): those that are registered, and those that will be.
 */
import { configError } from "../core/errors.ts";
import { guardTool } from "./guard-tool.ts";
import { passesInProgram, type ToolHints } from "./mcp-hints.ts";
import { mcpCodec, mcpResult, type ToolResult } from "./mcp-result.ts";
import {
  type AnyToolOptions,
  checkGuarding,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  isNamedTool,
  optionsOfTool,
  requireWhose,
  saysHowToGuard,
  type ToolsOptions,
} from "./tool-options.ts";

/** What a callback gets beside its arguments: `extra` of 1.x, `ctx` of 2.x. */
export interface McpExtra {
  readonly authInfo?: { readonly clientId?: string };
  readonly sessionId?: string;
  readonly http?: { readonly authInfo?: { readonly clientId?: string } };
  readonly [field: string]: unknown;
}

type Callback = (...args: never[]) => unknown;

interface ToolConfig {
  readonly inputSchema?: unknown;
  readonly annotations?: ToolHints | undefined;
}

/** A server by shape: both SDKs have `registerTool`, 1.x also the older `tool`. */
export interface ToolRegistry {
  registerTool(...args: never[]): unknown;
}

/** What registering returns: the same in both SDKs but for the callback's name, which older versions of 1.x call so. */
interface RegisteredTool extends ToolConfig {
  readonly handler?: unknown;
  readonly callback?: unknown;
  update(updates: { readonly callback?: Callback }): unknown;
}

/**
 * The server's tools are guarded, now and as they are registered; those that say readOnlyHint pass, and those that say
 * idempotentHint and are not named in `tools`. Returns the same server.
 * The scope is the OAuth client's id unless `scope` says otherwise: session ids of the transport change on a reconnect.
 * `guardMcpServer(nt, server, { tools: { create_issue: { key: ["title"], errors: "not-done" } } })`: "not-done" only for a tool
 * whose errors mean that nothing happened.
 */
export function guardMcpServer<S extends ToolRegistry>(
  nt: Guarding,
  server: S,
  options: ToolsOptions<McpExtra> = {},
): S {
  const target = server as unknown as { registerTool: unknown; tool?: unknown };
  if (typeof target?.registerTool !== "function") {
    throw configError("guardMcpServer: the second argument must be an McpServer: it has no registerTool().");
  }
  checkGuarding(nt, "guardMcpServer");
  checkToolsOptions(options, "guardMcpServer");
  const guard = (name: string, config: ToolConfig, callback: Callback) =>
    guardNamed(nt, name, config, callback, options);
  const { _registeredTools: registered = {} } = server as { _registeredTools?: Record<string, RegisteredTool> };
  for (const [name, tool] of Object.entries(registered)) {
    const callback = (tool.handler ?? tool.callback) as Callback;
    tool.update({ callback: guard(name, tool, callback) });
    guardUpdates(name, tool, guard);
  }
  const registerTool = (target.registerTool as (...args: unknown[]) => unknown).bind(server);
  target.registerTool = (name: string, config: ToolConfig, callback: Callback) =>
    guardUpdates(name, registerTool(name, config, guard(name, config, callback)), guard);
  if (typeof target.tool === "function") {
    const tool = (target.tool as (...args: unknown[]) => unknown).bind(server);
    target.tool = (name: string, ...rest: unknown[]) =>
      guardUpdates(name, tool(name, ...guardLast(rest, name, guard)), guard);
  }
  return server;
}

type GuardCallback = (name: string, config: ToolConfig, callback: Callback) => Callback;

/** A tool may get another callback later. */
function guardUpdates(name: string, registered: unknown, guard: GuardCallback): unknown {
  const tool = registered as RegisteredTool | undefined;
  if (typeof tool?.update !== "function") return registered;
  const { update } = tool;
  tool.update = (updates) => {
    const { callback } = updates;
    return update.call(tool, callback === undefined ? updates : { ...updates, callback: guard(name, tool, callback) });
  };
  return registered;
}

/** One callback, for a server that registers it: `server.registerTool(name, config, guardMcpTool(nt, name, config, callback))`. */
export function guardMcpTool<C extends Callback>(
  nt: Guarding,
  name: string,
  config: ToolConfig,
  callback: C,
  options: AnyToolOptions & GuardOptions<McpExtra> = {},
): C {
  requireWhose(options, `guardMcpTool(${JSON.stringify(name)})`);
  return guardCallback(nt, name, config, callback, { ...options, named: saysHowToGuard(options) });
}

type CallbackOptions = AnyToolOptions & GuardOptions<McpExtra> & { readonly named: boolean };

function guardCallback<C extends Callback>(
  nt: Guarding,
  name: string,
  config: ToolConfig,
  callback: C,
  { named, ...options }: CallbackOptions,
): C {
  if (passesInProgram(options.readOnly, config.annotations, { named })) return callback;
  const handler = callback as unknown as (...args: unknown[]) => Promise<ToolResult>;
  // Without an input schema a callback gets the context alone.
  const takesArgs = config.inputSchema !== undefined;
  const guarded = guardTool<Readonly<Record<string, unknown>>, McpExtra, ToolResult>(
    nt,
    {
      ...options,
      scope: options.scope === undefined ? clientOf : options.scope,
      name,
    },
    (args, extra) => (takesArgs ? handler(args, extra) : handler(extra)),
    mcpCodec,
  );
  const run = async (...given: unknown[]) => {
    const [args, extra] = takesArgs ? given : [{}, given[0]];
    return mcpResult(await guarded.answer((args ?? {}) as Record<string, unknown>, (extra ?? {}) as McpExtra));
  };
  return run as unknown as C;
}

function guardNamed(
  nt: Guarding,
  name: string,
  config: ToolConfig,
  callback: Callback,
  options: ToolsOptions<McpExtra>,
): Callback {
  const own = optionsOfTool(options, name);
  // Tools that run as tasks bring an object of handlers; their results come later, by another way.
  if (own === null || typeof callback !== "function") return callback;
  requireWhose(own, `guardMcpServer: tool ${JSON.stringify(name)}`);
  return guardCallback(nt, name, config, callback, { ...own, named: isNamedTool(options, name) });
}

/** The older `tool(name, description?, shape?, annotations?, callback)`. */
function guardLast(rest: readonly unknown[], name: string, guard: GuardCallback): unknown[] {
  const callback = rest.at(-1) as Callback;
  const objects = rest.slice(0, -1).filter((one) => typeof one === "object" && one !== null) as object[];
  const hints = objects.find((one) => Object.keys(one).some((key) => key.endsWith("Hint") || key === "title"));
  const shape = objects.find((one) => one !== hints);
  const config: ToolConfig = { inputSchema: shape, ...(hints !== undefined && { annotations: hints }) };
  return [...rest.slice(0, -1), guard(name, config, callback)];
}

function clientOf({ authInfo, http }: McpExtra): string | null {
  return authInfo?.clientId ?? http?.authInfo?.clientId ?? null;
}
