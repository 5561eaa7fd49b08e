/** The proxy's config file: the same words as an action's options, per tool. */
import { type Duration, durationMs } from "../core/duration.ts";
import { type Effect, movesMoney } from "../core/effect.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import { type PolicyOptions, resolvePolicy } from "../core/policy.ts";
import type { RetryOptions } from "../core/retry.ts";
import type { ErrorMeaning } from "./tool-options.ts";

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

export interface ProxyToolConfig {
  readonly key?: readonly string[];
  /** The key that the tool had before it was changed here. */
  readonly formerly?: { readonly key: readonly string[] };
  readonly free?: readonly string[];
  /** The kind of effect: sets keep, doubt, timeout and lease where they are not given. */
  readonly effect?: Effect;
  readonly keep?: Duration | "forever";
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration };
  readonly verify?: VerifyConfig;
  readonly errors?: ErrorMeaning;
  readonly timeout?: Duration;
  readonly lease?: Duration;
  readonly wait?: Duration;
  /** Tries inside one call, where surely nothing was sent. Without it the answer is given at once, and the next try is the caller's. */
  readonly retry?: RetryOptions;
  readonly readOnly?: boolean;
  readonly onTimeout?: OnTimeout;
  /** The argument in which the server takes an idempotency key: filled by the proxy, never by the model. */
  readonly keyArgument?: string;
}

export interface ProxyConfig {
  /** The server's name in the ledger. */
  readonly name?: string;
  /** A session, run or project: the same call in another scope is another intent. null: none, stated explicitly. */
  readonly scope?: string | null;
  /** How long identical calls of tools without a config of their own are made once. */
  readonly window?: Duration;
  /** Over HTTP: headers that say who calls. One principal never gets another's results. */
  readonly principal?: readonly string[];
  /** Adds the tool nevertwice_status to the server's own. */
  readonly statusTool?: boolean;
  /** For tools that do not say it themselves. */
  readonly onTimeout?: OnTimeout;
  readonly tools?: Readonly<Record<string, ProxyToolConfig>>;
}

export const DEFAULT_WINDOW = "15m";
export const DEFAULT_PRINCIPAL: readonly string[] = ["authorization", "x-api-key", "cookie"];

const TOP = ["name", "scope", "window", "principal", "statusTool", "onTimeout", "tools"];
const TOOL =
  "key formerly free effect keep doubt verify errors timeout lease wait retry readOnly onTimeout keyArgument".split(
    " ",
  );
const VERIFY = ["tool", "arguments", "match", "quietFor"];

/** Checks what JSON.parse gave; `where` is the file's name, `beside` what is given outside of it and wins. */
export function readProxyConfig(value: unknown, where: string, beside: Pick<ProxyConfig, "scope"> = {}): ProxyConfig {
  const config = plainObject(value, where, `{ "tools": { "<tool>": { "key": ["title"] } } }`);
  known(config, TOP, where);
  text(config.name, `${where}: name`);
  if (config.scope !== null) text(config.scope, `${where}: scope`);
  names(config.principal, `${where}: principal`);
  flag(config.statusTool, `${where}: statusTool`);
  onTimeout(config.onTimeout, `${where}: onTimeout`);
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
  flag(tool.readOnly, `${where}.readOnly`);
  text(tool.keyArgument, `${where}.keyArgument`);
  onTimeout(tool.onTimeout, `${where}.onTimeout`);
  if (tool.errors !== undefined && !["doubt", "not-done", "answer"].includes(tool.errors as string)) {
    throw configError(`${where}.errors is ${JSON.stringify(tool.errors)}; it takes "doubt", "not-done" or "answer".`);
  }
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

function checkMoney({ effect, readOnly }: ProxyToolConfig, config: object, where: string): void {
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

function onTimeout(value: unknown, where: string): void {
  if (value === undefined || value === "cancel" || value === "finish") return;
  throw configError(`${where} is ${JSON.stringify(value)}; it takes "cancel" or "finish".`);
}

function flag(value: unknown, where: string): void {
  if (value === undefined || typeof value === "boolean") return;
  throw configError(`${where} takes true or false.`);
}
