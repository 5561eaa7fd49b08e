/**
 * Does a server act again when a call is repeated? Calls tools several times with the same arguments, bare and through
 * the guard, and reports what the server did. Only tools that were named are called: a probe has real effects.
 */
import { randomUUID } from "node:crypto";
import { messageOf } from "../../core/errors.ts";
import { isReplayNote } from "../messages.ts";
import { McpClient } from "./client.ts";
import type { ProxyConfig, VerifyConfig } from "./config.ts";
import { McpGuard, type McpGuardOptions } from "./guard.ts";
import { type ToolResult, textOf } from "./result.ts";
import type { ToolInfo } from "./rpc.ts";
import { McpRelay } from "./stdio/relay.ts";
import { countMatches } from "./verify.ts";

/** A connection to a server, line by line. */
export interface Wire {
  send(line: string): void;
  /** Where its lines go from now on. */
  listen(on: { line(line: string): void; gone(error: Error): void }): void;
}

export interface ProbeOptions {
  readonly wire: Wire;
  readonly nt: McpGuardOptions["nt"];
  readonly config: ProxyConfig;
  readonly version: string;
  readonly calls: readonly { readonly tool: string; readonly args: Readonly<Record<string, unknown>> }[];
}

export interface Tried {
  /** How often the same call was made. */
  readonly calls: number;
  /** How many different answers came. */
  readonly answers: number;
  /** How many of the calls were answered with an error. */
  readonly errors: number;
  /** How many entries the verify tool saw in addition; null: nothing to look with. */
  readonly effects: number | null;
  readonly error: string | null;
}

export interface ProbedTool {
  readonly tool: string;
  readonly readOnly: boolean;
  readonly idempotentHint: boolean;
  /** null: it was not called. */
  readonly bare: Tried | null;
  readonly guarded: Tried | null;
  /**
   * acts-again: seen to, by its verify tool · once: seen not to · answers-differ, no-sign: other answers, or the same answer each
   * time, and nothing to look with · repeat-fails: the first call succeeded, and a repeat was answered with an error · failed: no call
   * succeeded · not-called
   */
  readonly verdict:
    | "acts-again"
    | "once"
    | "answers-differ"
    | "no-sign"
    | "repeat-fails"
    | "failed"
    | "not-called"
    | "read-only"
    | "idempotent";
}

export interface ProbeReport {
  readonly server: string;
  readonly tools: readonly ProbedTool[];
}

const REPEATS = 3;

export async function probeServer(options: ProbeOptions): Promise<ProbeReport> {
  const { wire } = options;
  const bare = new McpClient((line) => wire.send(line));
  wire.listen({ line: (line) => bare.receive(line), gone: (error) => bare.gone(error) });
  const { name, version } = await bare.connect(options.version);
  const tools = await bare.listTools();
  const tried = new Map<string, { bare: Tried; guarded: Tried }>();
  for (const { tool, args } of options.calls) {
    const verify = options.config.tools?.[tool]?.verify;
    const without = await tryOften(bare, tool, args, verify);
    tried.set(tool, { bare: without, guarded: await guarded(options, bare, tools, tool, args, verify) });
  }
  return {
    server: [name, version].filter(Boolean).join(" ") || "unnamed",
    tools: tools.map((tool) => row(tool, tried)),
  };
}

/** The same connection with the guard in between, in a scope nobody else has. */
async function guarded(
  { wire, nt, config }: ProbeOptions,
  bare: McpClient,
  tools: readonly ToolInfo[],
  tool: string,
  args: Readonly<Record<string, unknown>>,
  verify: VerifyConfig | undefined,
): Promise<Tried> {
  const guard = new McpGuard({ nt, config: { ...config, scope: randomUUID() }, server: "probe", identity: "probe" });
  guard.learn(tools);
  let relay: McpRelay | null = null;
  const client = new McpClient((line) => relay?.fromClient(line.replace(/"id":(\d+)/, '"id":"guarded-$1"')));
  const toClient = (line: string) => client.receive(line.replace(/"id":"guarded-(\d+)"/, '"id":$1'));
  relay = new McpRelay({ guard, toClient, toServer: (line) => wire.send(line) });
  const between = relay;
  wire.listen({ line: (line) => between.fromServer(line), gone: (error) => between.serverGone(error) });
  try {
    return await tryOften(client, tool, args, verify);
  } finally {
    wire.listen({ line: (line) => bare.receive(line), gone: (error) => bare.gone(error) });
  }
}

async function tryOften(
  client: McpClient,
  tool: string,
  args: Readonly<Record<string, unknown>>,
  verify: VerifyConfig | undefined,
): Promise<Tried> {
  const answers = new Set<string>();
  let errors = 0;
  const look = async () =>
    verify === undefined ? null : countMatches(verify, args, (name, by) => client.callTool(name, by));
  try {
    const before = await look();
    for (let call = 0; call < REPEATS; call += 1) {
      const answer = await client.callTool(tool, args);
      answers.add(essence(answer));
      if (answer.isError === true) errors += 1;
    }
    const after = await look();
    return {
      calls: REPEATS,
      answers: answers.size,
      errors,
      effects: before === null || after === null ? null : after - before,
      error: null,
    };
  } catch (error) {
    return { calls: REPEATS, answers: answers.size, errors, effects: null, error: messageOf(error) };
  }
}

/** An answer without the guard's own note on a repeat. */
function essence(result: ToolResult): string {
  const content = (result.content ?? []).filter(({ text }) => typeof text !== "string" || !isReplayNote(text));
  const bare = { ...result, content };
  return JSON.stringify([content, result.structuredContent ?? null, result.isError === true ? textOf(bare) : null]);
}

function row(tool: ToolInfo, tried: ReadonlyMap<string, { bare: Tried; guarded: Tried }>): ProbedTool {
  const readOnly = tool.annotations?.readOnlyHint === true;
  const { bare = null, guarded = null } = tried.get(tool.name) ?? {};
  const hints = { readOnly, idempotentHint: tool.annotations?.idempotentHint === true };
  return { tool: tool.name, ...hints, bare, guarded, verdict: verdictOf(bare, hints) };
}

/** Answers that differ prove nothing: a time in them does it, or "it is there already". Only what was counted is an effect. */
function verdictOf(bare: Tried | null, { readOnly, idempotentHint }: Hints): ProbedTool["verdict"] {
  if (bare === null) return readOnly ? "read-only" : idempotentHint ? "idempotent" : "not-called";
  if (bare.error !== null || bare.errors === bare.calls) return "failed";
  if (bare.effects !== null) return bare.effects > 1 ? "acts-again" : "once";
  if (bare.errors > 0) return "repeat-fails";
  return bare.answers > 1 ? "answers-differ" : "no-sign";
}

type Hints = Pick<ProbedTool, "readOnly" | "idempotentHint">;
