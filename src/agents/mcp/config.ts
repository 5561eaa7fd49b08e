/** The proxy's config file: the same words as an action's options, per tool. */
import { type Duration, durationMs } from "../../core/duration.ts";
import { type Effect, movesMoney } from "../../core/effect.ts";
import { configError, noSuchOption } from "../../core/errors.ts";
import { type LimitOptions, resolveLimit } from "../../core/limit.ts";
import { type PolicyOptions, resolvePolicy } from "../../core/policy.ts";
import type { RetryOptions } from "../../core/retry.ts";
import type { ErrorMeaning, GuardMode } from "../tool/options.ts";
import { repeatsOf } from "../tool/turns.ts";
import { principalProblem } from "./http/principal.ts";

export interface LimitConfig extends Omit<LimitOptions<never>, "by"> {
  readonly by?: string;
}

/** How to look whether a call happened: another tool of the same server that reads. */
export interface VerifyConfig {
  readonly tool: string;
  /** "$title" stands for the call's own argument. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Fields an entry of the answer must have, likewise. */
  readonly match: Readonly<Record<string, unknown>>;
  /** How long an attempt under way may still arrive. */
  readonly quietFor: Duration;
}

/**
 * What becomes of a call whose client stopped waiting (60 s in the official SDK), and says so with a cancellation:
 * cancel: the server is told, as by any other · finish: it is not, so that its answer is learned and the next call gets it.
 */
export type OnTimeout = "cancel" | "finish";

/**
 * What makes a call a repeat. undelivered: it is identical to one whose answer may not have arrived at the client · intent: it has
 * the same key as an earlier one, for as long as that is kept.
 */
export type ProxyGuard = "undelivered" | "intent";

export interface ProxyToolConfig {
  /** "intent" for a tool that the config names. */
  readonly guard?: ProxyGuard;
  readonly key?: readonly string[];
  /** The key that the tool had before it was changed here. */
  readonly formerly?: { readonly key: readonly string[] };
  readonly free?: readonly string[];
  /** The kind of effect: sets keep, doubt, timeout and lease where they are not given. */
  readonly effect?: Effect;
  readonly keep?: Duration | "forever";
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration } | { readonly holdFor: Duration };
  readonly verify?: VerifyConfig;
  readonly errors?: ErrorMeaning;
  /** What a call means in which the user declined what the tool asked; "not-done" unless another question was accepted before. */
  readonly declined?: ErrorMeaning;
  readonly timeout?: Duration;
  readonly lease?: Duration;
  readonly wait?: Duration;
  /** Tries inside one call, where surely nothing was sent. Without it the answer is given at once, and the next try is the caller's. */
  readonly retry?: RetryOptions;
  readonly readOnly?: boolean;
  readonly onTimeout?: OnTimeout;
  /** How many calls may be under way at once, or begin per time. `by`: the argument that names the destination. */
  readonly limit?: LimitConfig;
  /**
   * How many identical calls of one connection are intents of their own: each that comes while another is under way, or after the
   * answer of a done one has arrived.
   */
  readonly repeats?: number | true;
  /** The argument in which the server takes an idempotency key: filled by the proxy, never by the model. */
  readonly keyArgument?: string;
}

export interface ProxyConfig {
  /** The server's name in the ledger. */
  readonly name?: string;
  /** A session, run or project: the same call in another scope is another intent. null: none, stated explicitly. */
  readonly scope?: string | null;
  /** Of tools without a config of their own; "undelivered" unless given. */
  readonly guard?: ProxyGuard;
  /** The tools that are guarded, and no other. Unless given: all that do not pass by what the server declares of them. */
  readonly only?: readonly string[];
  /** How long a call of a tool without a config of its own is guarded at most, and a doubt about it held. */
  readonly window?: Duration;
  /** Over HTTP: headers, or claims of the token (claim:sub), that say who calls. One principal never gets another's results. */
  readonly principal?: readonly string[];
  /** Adds the tool nevertwice_status to the server's own. */
  readonly statusTool?: boolean;
  /** Adds the tool nevertwice_once_more: a model asks for one more run, and a person grants it. */
  readonly onceMoreTool?: boolean;
  /** For tools that do not say it themselves. */
  readonly onTimeout?: OnTimeout;
  /** "observe": every call is made, and the ledger records what would have been prevented. */
  readonly mode?: GuardMode;
  /** The config that ships for a known server; what `tools` says of a tool wins. */
  readonly preset?: string;
  readonly tools?: Readonly<Record<string, ProxyToolConfig>>;
  /** Tools that only the preset names: of a server that has other ones, nothing is noted. Not a field of the file. */
  readonly presetTools?: readonly string[];
}

export const DEFAULT_WINDOW = "15m";

/** What a person who starts the proxy has to know. */
export function whatHolds({ guard, only, window = DEFAULT_WINDOW, tools = {} }: ProxyConfig): string {
  const repeats =
    guard === "intent"
      ? `identical calls are made once within ${String(window)}`
      : `an identical call is a repeat until the answer of the first one has arrived, for ${String(window)} at most`;
  const keyed = Object.keys(tools).filter((name) => {
    const { readOnly, guard: own = "intent" } = tools[name] as ProxyToolConfig;
    return readOnly !== true && own === "intent";
  });
  const named = keyed.length === 0 ? "" : `; made once per key, as the config says: ${keyed.join(", ")}`;
  const others =
    only === undefined
      ? "tools that the server declares read-only or idempotent are not guarded"
      : `only these tools are guarded: ${only.join(", ")}`;
  return `${repeats}${named}; ${others}`;
}

const TOP = [
  "name",
  "preset",
  "scope",
  "guard",
  "only",
  "window",
  "principal",
  "statusTool",
  "onceMoreTool",
  "onTimeout",
  "mode",
  "tools",
];
const TOOL =
  "guard key formerly free effect keep doubt verify errors declined timeout lease wait retry readOnly onTimeout limit repeats keyArgument".split(
    " ",
  );
const VERIFY = ["tool", "arguments", "match", "quietFor"];

/** The limit as a guard takes it. */
export function limitOf({ by, ...limit }: LimitConfig): LimitOptions<Readonly<Record<string, unknown>>> {
  if (by === undefined) return limit;
  // A number is a destination too; anything else that is no text is refused by whoever asks.
  return { ...limit, by: ({ [by]: named }) => (typeof named === "number" ? String(named) : (named as string)) };
}

/** Checks what JSON.parse gave; `where` is the file's name, `beside` what is given outside of it and wins. */
export function readProxyConfig(value: unknown, where: string, beside: Pick<ProxyConfig, "scope"> = {}): ProxyConfig {
  const config = plainObject(value, where, `{ "tools": { "<tool>": { "key": ["title"] } } }`);
  known(config, TOP, where);
  text(config.name, `${where}: name`);
  text(config.preset, `${where}: preset`);
  if (config.scope !== null) text(config.scope, `${where}: scope`);
  names(config.principal, `${where}: principal`);
  guardMode(config.guard, `${where}: guard`);
  names(config.only, `${where}: only`);
  for (const name of (config.principal ?? []) as readonly string[]) {
    const wrong = principalProblem(name);
    if (wrong !== null) throw configError(`${where}: principal ${JSON.stringify(name)}: ${wrong}.`);
  }
  if ((config.principal as readonly string[] | undefined)?.length === 0)
    throw configError(
      `${where}: principal is empty, so that all callers would be one. Name a header, or leave it out.`,
    );
  flag(config.statusTool, `${where}: statusTool`);
  flag(config.onceMoreTool, `${where}: onceMoreTool`);
  onTimeout(config.onTimeout, `${where}: onTimeout`);
  if (config.mode !== undefined && config.mode !== "guard" && config.mode !== "observe")
    throw configError(`${where}: mode is ${JSON.stringify(config.mode)}; it takes "guard" or "observe".`);
  // A window of 0 would guard nothing, and be noticed at the first call only.
  if (config.window !== undefined && durationMs(config.window as Duration, `${where}: window`) === 0)
    throw configError(
      `${where}: window is 0, so no call would be guarded. Give a duration such as "15m", or leave it out.`,
    );
  if (config.tools !== undefined) {
    const tools = plainObject(config.tools, `${where}: tools`, `{ "<tool>": { "key": ["title"] } }`);
    for (const [name, tool] of Object.entries(tools)) {
      checkTool(tool, `${where}: tools.${name}`);
      checkMoney(tool as ProxyToolConfig, { ...config, ...beside }, `${where}: tools.${name}`);
      checkOnly(name, tool as ProxyToolConfig, config as ProxyConfig, where);
    }
  }
  return config as ProxyConfig;
}

function checkTool(value: unknown, where: string): void {
  const tool = plainObject(value, where, `{ "key": ["title"], "free": ["body"], "keep": "1d", "doubt": "hold" }`);
  known(tool, TOOL, where);
  names(tool.key, `${where}.key`);
  if (tool.formerly !== undefined) {
    const formerly = plainObject(tool.formerly, `${where}.formerly`, `{ "key": ["title"] }`);
    known(formerly, ["key"], `${where}.formerly`);
    names(formerly.key, `${where}.formerly.key`);
    if (formerly.key === undefined)
      throw configError(`${where}.formerly needs the key that the tool had: { "key": ["title"] }.`);
  }
  names(tool.free, `${where}.free`);
  guardMode(tool.guard, `${where}.guard`);
  flag(tool.readOnly, `${where}.readOnly`);
  text(tool.keyArgument, `${where}.keyArgument`);
  onTimeout(tool.onTimeout, `${where}.onTimeout`);
  if (tool.limit !== undefined) {
    const { by, ...limit } = plainObject(tool.limit, `${where}.limit`, `{ "rate": "10/m", "by": "channel" }`);
    text(by, `${where}.limit.by`);
    resolveLimit(limit, where);
  }
  for (const name of ["errors", "declined"]) {
    const meaning = tool[name];
    if (meaning !== undefined && !["doubt", "not-done", "answer"].includes(meaning as string))
      throw configError(`${where}.${name} is ${JSON.stringify(meaning)}; it takes "doubt", "not-done" or "answer".`);
  }
  if (repeatsOf(tool.repeats, where) !== null && tool.guard === "undelivered")
    throw configError(
      `${where}: repeats is for calls that are known by their key, and guard is "undelivered": there a call runs again as soon as the first answer has arrived. Leave one of them out.`,
    );
  // The guards are made as the calls come: what is wrong must be said before the first of them.
  resolvePolicy(tool as PolicyOptions<never>, where);
  if (tool.verify === undefined) return;
  if (tool.doubt === "retry" || tool.doubt === "hold") {
    throw configError(
      `${where}: verify settles a doubt by looking, and doubt says ${JSON.stringify(tool.doubt)}. Keep one.`,
    );
  }
  const example = `{ "tool": "list_issues", "match": { "title": "$title" }, "quietFor": "30s" }`;
  const verify = plainObject(tool.verify, `${where}.verify`, example);
  known(verify, VERIFY, `${where}.verify`);
  if (typeof verify.tool !== "string" || verify.match === undefined || verify.quietFor === undefined) {
    throw configError(`${where}.verify needs tool, match and quietFor: ${example}.`);
  }
  plainObject(verify.match, `${where}.verify.match`, `{ "title": "$title" }`);
  durationMs(verify.quietFor as Duration, `${where}.verify.quietFor`);
}

/** Configured and left out, a tool would run unguarded, which its config does not read like. */
function checkOnly(name: string, { readOnly }: ProxyToolConfig, { only }: ProxyConfig, where: string): void {
  if (only === undefined || only.includes(name) === (readOnly !== true)) return;
  throw configError(
    readOnly === true
      ? `${where}: only names ${JSON.stringify(name)}, and tools.${name} says "readOnly": true, so that it would not be guarded. Keep one.`
      : `${where}: tools.${name} says how it is guarded, and only does not name it, so that it would not be. Add it to only, or leave one of them out.`,
  );
}

function checkMoney({ effect, readOnly, guard }: ProxyToolConfig, config: object, where: string): void {
  if (movesMoney(effect) && guard === "undelivered")
    throw configError(
      `${where}: effect is "payment" and guard is "undelivered": the same payment would be made again as soon as its answer has arrived. Leave guard out.`,
    );
  if (!movesMoney(effect) || readOnly === true || "scope" in config) return;
  throw configError(
    `${where}: effect is "payment", and the file gives no scope. The same payment in another scope is another payment, so say which: "scope": null at the top of the file where it is made once, or the name of the session, run or project (also: --scope).`,
  );
}

function plainObject(value: unknown, where: string, example: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw configError(`${where} must be an object, such as ${example}.`);
}

function known(object: object, names: readonly string[], where: string): void {
  const wrong = Object.keys(object).find((name) => !names.includes(name));
  if (wrong === undefined) return;
  throw noSuchOption(where, wrong, names);
}

function names(value: unknown, where: string): void {
  if (value === undefined || (Array.isArray(value) && value.every((one) => typeof one === "string" && one !== "")))
    return;
  throw configError(`${where} takes a list of names, such as ["title"].`);
}

function text(value: unknown, where: string): void {
  if (value === undefined || (typeof value === "string" && value.trim() !== "")) return;
  throw configError(`${where} takes a text that is not blank.`);
}

function guardMode(value: unknown, where: string): void {
  if (value === undefined || value === "undelivered" || value === "intent") return;
  throw configError(`${where} is ${JSON.stringify(value)}; it takes "undelivered" or "intent".`);
}

function onTimeout(value: unknown, where: string): void {
  if (value === undefined || value === "cancel" || value === "finish") return;
  throw configError(`${where} is ${JSON.stringify(value)}; it takes "cancel" or "finish".`);
}

function flag(value: unknown, where: string): void {
  if (value === undefined || typeof value === "boolean") return;
  throw configError(`${where} takes true or false.`);
}
