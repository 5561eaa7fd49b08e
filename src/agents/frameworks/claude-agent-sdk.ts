/**
 * Tools of the Claude Agent SDK. The handler is wrapped, not the hook: a hook can only deny, and a stored success told as
 * a denial reads as a failure. A hook learns the session's id, which handlers are not given.
 */
import { configError } from "../../core/errors.ts";
import { guardTool } from "../guard-tool.ts";
import { passesInProgram, type ToolHints } from "../mcp/hints.ts";
import { mcpCodec, mcpResult, type ToolResult } from "../mcp/result.ts";
import { requireKey } from "../tool/fields.ts";
import {
  type AnyInput,
  type AnyToolOptions,
  checkGuarding,
  checkToolNames,
  checkToolsOptions,
  type Guarding,
  type GuardOptions,
  isNamedTool,
  noConversation,
  optionsOfTool,
  requireWhose,
  saysHowToGuard,
  type ToolsOptions,
} from "../tool/options.ts";
import { perSession } from "../tool/session-money.ts";
import type { Turn } from "../tool/turns.ts";
import { requireFramework } from "./version.ts";

/** What `tool()` returns. */
export interface ClaudeTool {
  readonly name: string;
  readonly inputSchema?: unknown;
  readonly annotations?: ToolHints | undefined;
  readonly handler: (args: never, extra: unknown) => Promise<unknown>;
}

/** What a scope function gets. */
export interface ClaudeCall {
  /** Kept on resume, new on a fork; known when `hooks()` is installed. */
  readonly sessionId: string | undefined;
  readonly toolUseId: string | undefined;
  /** The type of the subagent that calls, or the name a session was started with (--agent); known when `hooks()` is installed. */
  readonly agentType: string | undefined;
  readonly extra: unknown;
}

interface HookInput {
  readonly session_id?: unknown;
  readonly tool_use_id?: unknown;
  readonly agent_type?: unknown;
  readonly agent_id?: unknown;
  readonly prompt_id?: unknown;
}

type HookCallback = (input: HookInput, toolUseId?: string) => Promise<Record<string, never>>;

export interface ClaudeHooks {
  readonly PreToolUse: { hooks: HookCallback[] }[];
  readonly PostToolBatch: { hooks: HookCallback[] }[];
}

export interface ClaudeGuard {
  /** One definition; options beside those of the guard. */
  tool<T extends ClaudeTool>(definition: T, options?: AnyToolOptions): T;
  /** The tools of `createSdkMcpServer`: createSdkMcpServer(guard.server({ name, tools })). */
  server<O extends { readonly tools?: readonly ClaudeTool[] }>(options: O): O;
  /** For `query({ options: { hooks } })`; hooks of your own stay beside it. */
  hooks<H extends object>(yours?: H): H & ClaudeHooks;
}

// Calls whose session was learned and whose handler has not run yet; denied ones never do.
const MOST_LEARNED = 10_000;

/**
 * `claudeGuard(nt, { tools: { send_mail: { key: ["to"], errors: "not-done" } } })`. The scope is the session unless `scope` says
 * otherwise. `errors: "not-done"` only for a tool whose errors mean that nothing happened.
 */
export function claudeGuard(nt: Guarding, options: ToolsOptions<ClaudeCall> = {}): ClaudeGuard {
  checkGuarding(nt, "claudeGuard");
  checkToolsOptions(options, "claudeGuard");
  requireFramework("@anthropic-ai/claude-agent-sdk", "claudeGuard");
  const callers = new Map<string, Caller>();
  const turns = new Map<string, object>();
  const learn: HookCallback = async (input, given) => {
    const { session_id, tool_use_id, agent_type } = input;
    const id = typeof tool_use_id === "string" ? tool_use_id : given;
    if (typeof session_id === "string" && id !== undefined) {
      const agentType = typeof agent_type === "string" ? agent_type : undefined;
      const turn = promptOf(input);
      if (turn !== null) keepRecent(turns, turn, turns.get(turn) ?? {});
      keepRecent(callers, id, { sessionId: session_id, agentType, turn: turn === null ? undefined : turns.get(turn) });
    }
    return {};
  };
  // Once after all calls of one answer of the model.
  const ends: HookCallback = async (input) => {
    turns.delete(promptOf(input) ?? "");
    return {};
  };
  const tool = <T extends ClaudeTool>(definition: T, own: AnyToolOptions = {}): T => {
    if (typeof definition?.handler !== "function") {
      throw configError("claudeGuard: that is no tool. Give what tool() of the Claude Agent SDK returned.");
    }
    const chosen = optionsOfTool(options, definition.name);
    const merged: AnyToolOptions & GuardOptions<ClaudeCall> = { ...chosen, ...own };
    requireWhose(merged, `claudeGuard: tool ${JSON.stringify(definition.name)}`);
    const named = isNamedTool(options, definition.name) || saysHowToGuard(own);
    if (chosen === null || passesInProgram(merged.readOnly, definition.annotations, { named })) return definition;
    requireKey(definition.inputSchema, merged, `claudeGuard: tool ${JSON.stringify(definition.name)}`);
    const guarded = guardTool<AnyInput, ClaudeCall & Caller, ToolResult>(
      nt,
      {
        turn: ({ toolUseId, turn }): Turn | undefined => turn && { call: toolUseId, turn },
        ...merged,
        scope: merged.scope === undefined ? perSession(sessionOf(definition.name)) : merged.scope,
        agent: merged.agent ?? (({ agentType }: ClaudeCall) => agentType),
        name: definition.name,
      },
      (args, { extra }) => definition.handler(args as never, extra) as Promise<ToolResult>,
      mcpCodec,
    );
    const handler = async (args: never, extra: unknown) => {
      const toolUseId = toolUseIdOf(extra);
      const caller = (toolUseId === undefined ? undefined : callers.get(toolUseId)) ?? UNKNOWN_CALLER;
      return mcpResult(await guarded.answer(args as AnyInput, { ...caller, toolUseId, extra }));
    };
    return { ...definition, handler };
  };
  return {
    tool,
    server: (server) => {
      const tools = server.tools ?? [];
      checkToolNames(
        options,
        tools.map(({ name }) => name),
        "claudeGuard",
      );
      return { ...server, tools: tools.map((one) => tool(one)) };
    },
    hooks: (yours) => {
      const { PreToolUse = [], PostToolBatch = [] } = (yours ?? {}) as Partial<ClaudeHooks>;
      return {
        ...yours,
        PreToolUse: [...PreToolUse, { hooks: [learn] }],
        PostToolBatch: [...PostToolBatch, { hooks: [ends] }],
      } as never;
    },
  };
}

/** `turn`: the same object for all calls of one answer of the model. */
type Caller = Pick<ClaudeCall, "sessionId" | "agentType"> & { readonly turn?: object | undefined };

const UNKNOWN_CALLER: Caller = { sessionId: undefined, agentType: undefined };

/** Whose turns follow each other: an agent's, from one prompt on. A turn that was cut off is not gone on with by the next prompt. */
function promptOf({ session_id, agent_id, prompt_id }: HookInput): string | null {
  return typeof prompt_id === "string" ? JSON.stringify([session_id, agent_id, prompt_id]) : null;
}

function keepRecent<V>(all: Map<string, V>, key: string, value: V): void {
  const [oldest] = all.keys();
  if (all.size >= MOST_LEARNED && oldest !== undefined) all.delete(oldest);
  all.set(key, value);
}

/** A guard whose hook is not installed would give one session's results to another. */
function sessionOf(tool: string): (call: ClaudeCall) => string {
  return ({ sessionId }) => {
    if (sessionId !== undefined) return sessionId;
    throw noConversation(
      tool,
      "its session is not known",
      "install the hook that learns the session, query({ options: { hooks: guard.hooks() } })",
    );
  };
}

function toolUseIdOf(extra: unknown): string | undefined {
  const id = (extra as { _meta?: Record<string, unknown> } | null)?._meta?.["claudecode/toolUseId"];
  return typeof id === "string" ? id : undefined;
}
