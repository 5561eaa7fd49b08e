/**
 * The low-level `Server` of both SDKs, whose tools/call has one handler for all tools. Which tools there are, and what they declare,
 * its own tools/list says, asked with the caller's context: another caller's list may be another one.
 */

import { requireKey } from "../../tool/fields.ts";
import type { Guarding } from "../../tool/options.ts";
import { passesInProgram, type ToolHints } from "../hints.ts";
import type { ToolResult } from "../result.ts";
import type { Task } from "../tasks.ts";
import { type Args, type GuardedCall, guardCall, type McpGuardOptions } from "./call.ts";
import { heardBy } from "./elicitation.ts";
import { notUnderstood, type OptionsOf } from "./registered.ts";
import type { McpExtra } from "./scope.ts";
import { type TaskStore, taskStoreOf } from "./tasks.ts";
import type { Connection } from "./turn.ts";

interface Request {
  readonly method: string;
  readonly params?: { readonly name?: unknown; readonly arguments?: unknown; readonly task?: unknown };
}

type RequestHandler = (request: Request, extra: McpExtra) => unknown;

/** The parts of a `Server` that are needed, the same in both SDKs. */
interface RequestServer {
  readonly _requestHandlers: Map<string, RequestHandler>;
  readonly transport?: object;
  setRequestHandler: (...args: unknown[]) => unknown;
  request: (request: { readonly method?: unknown }, ...rest: unknown[]) => unknown;
}

interface ListedTool {
  readonly name?: unknown;
  readonly annotations?: ToolHints;
  readonly inputSchema?: unknown;
  readonly execution?: { readonly taskSupport?: unknown };
}

interface Guards {
  readonly nt: Guarding;
  readonly optionsOf: OptionsOf;
  /** Tools that have a guard of their own. */
  isGuarded(name: string): boolean;
  /** Whether an unknown name is the handler's to refuse: that of an McpServer, which knows its tools. */
  isOwn(): boolean;
}

export function requestServer(server: unknown): RequestServer {
  const { _requestHandlers, setRequestHandler, request } = (server ?? {}) as Partial<RequestServer>;
  if (typeof setRequestHandler !== "function" || typeof request !== "function" || !(_requestHandlers instanceof Map))
    throw notUnderstood("the server has no setRequestHandler(), request() and table of handlers as it should");
  return server as RequestServer;
}

/** Its handler of tools/call is guarded, now and whenever it is set. What the user answers to a tool's questions is noted. */
export function guardRequests(server: RequestServer, guards: Guards): void {
  const handlers = server._requestHandlers;
  const guarded = new WeakSet<RequestHandler>();
  const byName = new Map<string, GuardedCall>();
  const wrap = () => {
    const handler = handlers.get("tools/call");
    if (handler === undefined || guarded.has(handler)) return;
    const call = guardedCalls(handler, server, guards, byName);
    guarded.add(call);
    handlers.set("tools/call", call);
  };
  wrap();
  const set = server.setRequestHandler.bind(server);
  server.setRequestHandler = (...args) => {
    const returned = set(...args);
    wrap();
    return returned;
  };
  server.request = heardBy(server.request.bind(server));
}

function guardedCalls(
  handler: RequestHandler,
  server: RequestServer,
  { nt, optionsOf, isGuarded, isOwn }: Guards,
  byName: Map<string, GuardedCall>,
): RequestHandler {
  const own = isOwn();
  const handlers = server._requestHandlers;
  return async (request, extra) => {
    const { name, arguments: given = {}, task } = request.params ?? {};
    if (typeof name !== "string" || !isArguments(given))
      throw invalid("a tools/call needs a name, and its arguments as an object");
    const options = isGuarded(name) ? null : optionsOf(name);
    if (options === null) return handler(request, extra);
    const tool = await listed(handlers.get("tools/list"), name, extra);
    const { named, ...guard } = options;
    if (passesInProgram(guard.readOnly, tool?.annotations, { named })) return handler(request, extra);
    if (tool === undefined && !named) {
      // Names come from clients: each would become an action of its own.
      if (own) return handler(request, extra);
      throw invalid(`Tool ${name} not found: the server's tools/list does not name it`);
    }
    const call = byName.get(name) ?? guardOf(nt, name, guard, tool, () => server.transport);
    byName.set(name, call);
    return call(given, {
      extra,
      run: (_args, context) => handler(request, context),
      asTask: task !== undefined,
      tasks: taskStoreOf(extra) ?? tasksOf(handlers, extra),
    });
  };
}

function guardOf(
  nt: Guarding,
  name: string,
  options: McpGuardOptions,
  tool: ListedTool | undefined,
  connection: Connection,
): GuardedCall {
  requireKey(tool?.inputSchema, options, `guardMcpServer: tool ${JSON.stringify(name)}`);
  const support = tool?.execution?.taskSupport;
  return guardCall(nt, name, options, {
    isTask: support === "required" || support === "optional",
    notBegun,
    connection,
  });
}

/** The errors by which a handler, or the SDK, refuses a request before anything is done: invalid request, no such method, invalid params. */
function notBegun(error: unknown): boolean {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return code === -32_600 || code === -32_601 || code === -32_602;
}

const MOST_PAGES = 1_000;

async function listed(
  list: RequestHandler | undefined,
  name: string,
  extra: McpExtra,
): Promise<ListedTool | undefined> {
  let cursor: string | undefined;
  for (let page = 0; list !== undefined && page < MOST_PAGES; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools, nextCursor } = (await list({ method: "tools/list", params } as Request, extra)) as {
      tools?: readonly ListedTool[];
      nextCursor?: string;
    };
    const found = tools?.find((one) => one.name === name);
    if (found !== undefined || nextCursor === undefined) return found;
    cursor = nextCursor;
  }
  return undefined;
}

/** The server's own tasks/get and tasks/result, where it has no task store. */
function tasksOf(handlers: ReadonlyMap<string, RequestHandler>, extra: McpExtra): TaskStore | undefined {
  const get = handlers.get("tasks/get");
  const result = handlers.get("tasks/result");
  if (get === undefined || result === undefined) return undefined;
  const ask = (handler: RequestHandler, method: string, taskId: string) =>
    handler({ method, params: { taskId } } as Request, extra);
  return {
    getTask: async (taskId) => (await ask(get, "tasks/get", taskId)) as Task,
    getTaskResult: async (taskId) => (await ask(result, "tasks/result", taskId)) as ToolResult,
  };
}

function isArguments(value: unknown): value is Args {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** JSON-RPC's "invalid params", as both SDKs pass it on. */
function invalid(message: string): Error {
  return Object.assign(new Error(message), { code: -32_602 });
}
