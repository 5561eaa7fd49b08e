/**
 * Tools of an MCP server built with the official SDK, 1.x (`@modelcontextprotocol/sdk`) or 2.x
 * (`@modelcontextprotocol/server`): guarded as they are registered.
 */
import { configError } from "../core/errors.ts";
import { guardTool } from "./guard-tool.ts";
import { mcpCodec, mcpErrorMeaning, mcpResult, type ToolResult } from "./mcp-result.ts";
import {
  type AnyToolOptions,
  type Guarding,
  type GuardOptions,
  optionsOfTool,
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
  readonly annotations?: { readonly readOnlyHint?: boolean | undefined } | undefined;
}

/** A server by shape: both SDKs have `registerTool`, 1.x also the older `tool`. */
export interface ToolRegistry {
  registerTool(...args: never[]): unknown;
}

/**
 * Tools registered on the server from now on are guarded; those that say readOnlyHint pass. Returns the same server.
 * The scope is the OAuth client's id unless `scope` says otherwise: session ids of the transport change on a reconnect.
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
  const registerTool = (target.registerTool as (...args: unknown[]) => unknown).bind(server);
  target.registerTool = (name: string, config: ToolConfig, callback: Callback) =>
    registerTool(name, config, guardNamed(nt, name, config, callback, options));
  if (typeof target.tool === "function") {
    const tool = (target.tool as (...args: unknown[]) => unknown).bind(server);
    target.tool = (name: string, ...rest: unknown[]) => tool(name, ...guardLast(nt, name, rest, options));
  }
  return server;
}

/** One callback, for a server that registers it: `server.registerTool(name, config, guardMcpTool(nt, name, config, callback))`. */
export function guardMcpTool<C extends Callback>(
  nt: Guarding,
  name: string,
  config: ToolConfig,
  callback: C,
  options: AnyToolOptions & GuardOptions<McpExtra> = {},
): C {
  const readOnly = options.readOnly ?? config.annotations?.readOnlyHint === true;
  if (readOnly) return callback;
  const handler = callback as unknown as (...args: unknown[]) => Promise<ToolResult>;
  // Without an input schema a callback gets the context alone.
  const takesArgs = config.inputSchema !== undefined;
  const guarded = guardTool<Readonly<Record<string, unknown>>, McpExtra, ToolResult>(
    nt,
    { scope: clientOf, ...options, errors: mcpErrorMeaning(options.errors), name },
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
  return own === null || typeof callback !== "function" ? callback : guardMcpTool(nt, name, config, callback, own);
}

/** The older `tool(name, description?, shape?, annotations?, callback)`. */
function guardLast(nt: Guarding, name: string, rest: readonly unknown[], options: ToolsOptions<McpExtra>): unknown[] {
  const callback = rest.at(-1) as Callback;
  const objects = rest.slice(0, -1).filter((one) => typeof one === "object" && one !== null) as object[];
  const hints = objects.find((one) => Object.keys(one).some((key) => key.endsWith("Hint") || key === "title"));
  const shape = objects.find((one) => one !== hints);
  const config: ToolConfig = { inputSchema: shape, ...(hints !== undefined && { annotations: hints }) };
  return [...rest.slice(0, -1), guardNamed(nt, name, config, callback, options)];
}

function clientOf({ authInfo, http }: McpExtra): string | undefined {
  return authInfo?.clientId ?? http?.authInfo?.clientId;
}
