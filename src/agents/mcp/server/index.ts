/**
 * Tools of an MCP server built with the official SDK, 1.x (`@modelcontextprotocol/sdk`) or 2.x
 * (`@modelcontextprotocol/server`): those that are registered, and those that will be; of an McpServer, and of the low-level Server.
 */
import { configError } from "../../../core/errors.ts";
import {
  checkGuarding,
  checkToolOptions,
  checkToolsOptions,
  type Guarding,
  isNamedTool,
  optionsOfTool,
  requireWhose,
  saysHowToGuard,
  type ToolsOptions,
} from "../../tool/options.ts";
import type { McpGuardOptions, McpToolOptions } from "./call.ts";
import {
  type Callback,
  GuardedHandler,
  GuardedTools,
  type Handler,
  notUnderstood,
  type OptionsOf,
  type RegisteredTool,
  type ToolConfig,
} from "./registered.ts";
import { guardRequests, requestServer } from "./requests.ts";
import { type McpExtra, type McpScope, requireScope } from "./scope.ts";

export type { McpGuardOptions, McpToolOptions } from "./call.ts";
export { type McpExtra, type McpScope, sessionOf, subjectOf } from "./scope.ts";

/** A server by shape: `McpServer` has `registerTool`, the low-level `Server` only `setRequestHandler`. */
export type GuardableServer =
  | { registerTool(...args: never[]): unknown }
  | { setRequestHandler(...args: never[]): unknown };

export interface McpServerOptions extends Omit<ToolsOptions<McpExtra>, "scope" | "tools" | "otherTools"> {
  /** Whose calls they are: `subjectOf`, `sessionOf`, a text, a function of the call, or null: an intent happens once, whoever asks. */
  readonly scope: McpScope;
  readonly tools?: { readonly [name: string]: McpToolOptions | false };
  /** For tools that `tools` does not name; false: those are left alone. */
  readonly otherTools?: McpToolOptions | false;
}

const guardedServers = new WeakSet<object>();

/**
 * The server's tools are guarded, now and as they are registered; those that say readOnlyHint pass, and those that say
 * idempotentHint and are not named in `tools`. Returns the same server.
 * `guardMcpServer(nt, server, { scope: subjectOf, tools: { create_issue: { key: ["title"], errors: "not-done" } } })`: "not-done"
 * only for a tool whose errors mean that nothing happened.
 */
export function guardMcpServer<S extends GuardableServer>(nt: Guarding, server: S, options: McpServerOptions): S {
  const where = "guardMcpServer";
  const target = server as unknown as Record<string, unknown> | null | undefined;
  const isHigh = typeof target?.registerTool === "function";
  if (target === null || target === undefined || (!isHigh && typeof target.setRequestHandler !== "function")) {
    // McpServer before SDK 1.13.
    if (typeof target?.tool === "function") throw notUnderstood("the server has no registerTool()");
    throw configError(
      `${where}: the second argument must be an McpServer or a Server: it has no registerTool(), and no setRequestHandler().`,
    );
  }
  checkGuarding(nt, where);
  checkToolsOptions(options ?? {}, where);
  requireScope(options ?? {}, where);
  const { tools = {}, otherTools, errors: _, ...guard } = options;
  for (const [name, own] of Object.entries({ ...tools, ...(otherTools !== undefined && { otherTools }) }))
    if (own !== false) checkToolOptions({ ...own, ...guard }, name, ["declined"]);
  if (guardedServers.has(server)) throw configError(`${where}: this server is guarded already. Guard it once.`);
  const optionsOf: OptionsOf = (name) => {
    const own = optionsOfTool(options as ToolsOptions<McpExtra>, name);
    if (own === null) return null;
    requireWhose(own, `${where}: tool ${JSON.stringify(name)}`);
    return { ...(own as McpGuardOptions), named: isNamedTool(options as ToolsOptions<McpExtra>, name) };
  };
  if (isHigh) guardTools(nt, target, optionsOf);
  else guardRequests(requestServer(target), { nt, optionsOf, isGuarded: () => false, isOwn: () => false });
  guardedServers.add(server);
  return server;
}

/** All ways by which an McpServer comes to a tool; what comes by another one is guarded where it is called. */
function guardTools(nt: Guarding, server: Record<string, unknown>, optionsOf: OptionsOf): void {
  const registered = server._registeredTools as Record<string, RegisteredTool> | undefined;
  if (typeof registered !== "object" || registered === null) throw notUnderstood("the server has no list of its tools");
  const inner = requestServer(server.server);
  const tools = new GuardedTools(nt, optionsOf, () => inner.transport);
  for (const [name, tool] of Object.entries(registered)) tools.adopt(name, tool);
  tools.intercept(server, "registerTool");
  if (typeof server.tool === "function") tools.intercept(server, "tool");
  const { tasks } = (server.experimental ?? {}) as { tasks?: Record<string, unknown> };
  if (typeof tasks?.registerToolTask === "function") tools.intercept(tasks, "registerToolTask");
  let isSettingItsOwn = false;
  const { setToolRequestHandlers } = server as { setToolRequestHandlers?: () => unknown };
  if (typeof setToolRequestHandlers === "function") {
    server.setToolRequestHandlers = () => {
      isSettingItsOwn = true;
      try {
        return setToolRequestHandlers.call(server);
      } finally {
        isSettingItsOwn = false;
      }
    };
  }
  const current = () => server._registeredTools as Record<string, unknown>;
  guardRequests(inner, {
    nt,
    optionsOf,
    isGuarded: (name) => Object.hasOwn(current(), name) && tools.has(current()[name]),
    isOwn: () => isSettingItsOwn,
  });
}

/**
 * One callback, or the handler of a tool that runs as a task, for a server that registers it:
 * `server.registerTool(name, config, guardMcpTool(nt, name, config, callback, { scope: subjectOf }))`. Of the questions that it asks the
 * user, those are heard that it asks by what its context offers (`sendRequest`, `mcpReq`); guardMcpServer hears all.
 */
export function guardMcpTool<C extends Callback | { createTask(...args: never[]): unknown }>(
  nt: Guarding,
  name: string,
  config: ToolConfig,
  callback: C,
  options: McpGuardOptions,
): C {
  const where = `guardMcpTool(${JSON.stringify(name)})`;
  checkGuarding(nt, where);
  requireWhose(options ?? {}, where);
  requireScope(options ?? {}, where);
  const own = { ...options, named: saysHowToGuard(options) };
  const handler = new GuardedHandler(nt, "guardMcpTool", () => own, name, callback as unknown as Handler);
  handler.set({}, config ?? {});
  return handler.passes ? callback : (handler.stand() as unknown as C);
}
