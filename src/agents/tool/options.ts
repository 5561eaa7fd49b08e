/** The options of a guarded tool: the words of an action, and what only tools have. */

import { agentFrom, checkAgent } from "../../core/agent-name.ts";
import { movesMoney } from "../../core/effect.ts";
import { configError, isNevertwiceError, messageOf, NevertwiceError, noSuchOption } from "../../core/errors.ts";
import { requireGiven } from "../../core/given-option.ts";
import type { KeyOption } from "../../core/key/parts.ts";
import type { LimitOptions } from "../../core/limit.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";
import { asContainer, asDelivered, isContainer, type PolicyOptions } from "../../core/policy.ts";
import type { Check } from "../../engine/check-context.ts";
import type { DefineAction } from "../../engine/define-action.ts";
import type { Formerly, Probe, Verdictish } from "../../engine/definition.ts";
import type { Turn } from "./turns.ts";

/** What the guards need of `nevertwice()`. */
export interface Guarding {
  readonly action: DefineAction<unknown>;
  status(target: { readonly key: string }): Promise<Outcome<unknown> | Absent>;
}

/**
 * What a tool's error means, a result that says "error" (MCP's isError, an object with `error`, or `success: false`) or one that
 * was thrown:
 * doubt: it may have happened · not-done: it did not, and may be called again · answer: a result like any other.
 */
export type ErrorMeaning = "doubt" | "not-done" | "answer";

export interface ToolOptions<I = never, R = unknown> extends PolicyOptions<Probe<I, R>> {
  /**
   * What makes two calls the same intent: field names, fields with what is made of them, or a function of the input. Without
   * it, every field that is not free.
   */
  readonly key?: KeyOption<I>;
  /** The key, or the action's name, that the tool had before: what was recorded under it is found, and not run again. */
  readonly formerly?: Formerly<I> | readonly Formerly<I>[];
  /** Fields a model may reword; all others must match on a repeat. */
  readonly free?: readonly (NoInfer<I> extends object ? keyof NoInfer<I> & string : string)[];
  /** The action's name in the ledger; the tool's name unless given. */
  readonly action?: string;
  /** True: passes through, unguarded. */
  readonly readOnly?: boolean;
  /**
   * What the tool's errors mean; "doubt" unless given. "not-done" only for a tool whose errors mean that nothing happened
   * (it checks, then does one thing): the corrected call may then follow. Timeouts, lost connections and other errors that
   * the built-in rules know to be doubtful stay so. A function gets the result, or, where the tool threw, undefined and what it
   * threw.
   */
  readonly errors?: ErrorMeaning | ((result: R, error?: unknown) => ErrorMeaning);
  /**
   * Runs before the claim, where this call would claim: what it throws was surely not sent, leaves no record, and reaches the
   * model as the tool's own error. The corrected call runs.
   */
  readonly check?: Check<I>;
  /** A second opinion on an error that the tool threw; undefined leaves it to the built-in rules. */
  readonly classify?: (error: unknown) => Verdictish | undefined;
  /** The provider's own id in a result, for nt.find({ providerId }); by the usual names unless given. */
  readonly resultId?: (result: R) => string | undefined;
  /**
   * How many calls may be under way at once, or begin per time, over all processes of the ledger: { rate: "10/m" }. A call above
   * it is not run and leaves no record, and the model is told when to try again. Repeats are not counted.
   */
  readonly limit?: LimitOptions<I>;
  /**
   * How many identical calls of one turn of the model may run, each as an intent of its own; true: as many as a turn may have. One
   * unless given: the others get the first result. A turn that is made again has the same intents.
   */
  readonly repeats?: number | true;
}

/** Options for all tools of a wrapper. */
export interface GuardOptions<X> {
  /**
   * The id of a user, session, thread or run: the same intent in another scope is another intent. A function gets what the
   * framework hands to the tool; one that gives undefined is an error, as an empty key part is. null: no scope, so that an
   * intent happens once, whoever asks. Required where the wrapper has no thread or session to take it from.
   */
  readonly scope?: string | null | ((extra: X) => string | null | undefined);
  /** Whose call it is. A function gets what the framework hands to the tool; where it gives no name, the call is refused. */
  readonly tenant?: string | ((extra: X) => string | undefined);
  /**
   * Who acts, for the records and events; not part of the key. A function gets what the framework hands to the tool. Unless
   * given: the agent's name where the framework tells it to a tool, then nevertwice({ agent }).
   */
  readonly agent?: string | ((extra: X) => string | undefined);
  /** The name of the status tool, if the model has one: refusals then say to ask it. */
  readonly statusTool?: string;
  /** The name of the once-more tool, if the model has one: the answer to a repeat then says how to ask for one more run. */
  readonly onceMoreTool?: string;
  /**
   * "observe": every call runs, repeats too, and the ledger records what would have been prevented: nt.prevented(). "guard"
   * unless given.
   */
  readonly mode?: GuardMode;
  /**
   * With `repeats`: the turn of the model that a call belongs to, by the ids of both; what the wrapper knows of it unless given.
   * Undefined: it is not known, and the call is its first.
   */
  readonly turn?: (extra: X) => Turn | undefined;
}

export type GuardMode = "guard" | "observe";

/** The inputs of a set of tools by their names, where neither is known to the compiler. */
// biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
export type AnyInputs = Readonly<Record<string, any>>;

/** The names of a record of tools; of a list the compiler knows none. */
// biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
export type NamesOf<T> = T extends readonly unknown[] ? AnyInputs : { readonly [Name in keyof T & string]: any };

/** The inputs of a record of tools whose `execute` says what it takes. */
export type InputsOf<T> = {
  readonly [Name in keyof T & string]: T[Name] extends { readonly execute?: infer Execute }
    ? NonNullable<Execute> extends (input: infer Input, ...rest: never) => unknown
      ? Known<Input>
      : // biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
        any
    : // biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
      any;
};

// biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
type Known<Input> = [Input] extends [never] ? any : unknown extends Input ? any : Input;

/** For a set of tools: options per tool by its name. `false` leaves a tool alone. */
export interface ToolsOptions<X, Inputs = AnyInputs> extends GuardOptions<X> {
  // biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
  readonly tools?: { readonly [Name in keyof Inputs & string]?: ToolOptions<Inputs[Name], any> | false };
  /** For tools that `tools` does not name; false: those are left alone. */
  readonly otherTools?: AnyToolOptions | false;
  /** What errors mean for every tool whose own options do not say it. */
  readonly errors?: ErrorMeaning;
}

/** A tool's input as a wrapper sees it. */
export type AnyInput = Readonly<Record<string, unknown>>;

// biome-ignore lint/suspicious/noExplicitAny: options of many tools at once, each with an input of its own
export type AnyToolOptions = ToolOptions<any, any>;

const GUARD = ["scope", "tenant", "agent", "statusTool", "onceMoreTool", "mode", "turn"] as const;
const POLICY = ["keep", "lease", "timeout", "wait", "doubt", "retry", "whenStoreDown", "effect"] as const;
const TOOL = [
  ...POLICY,
  "key",
  "formerly",
  "free",
  "action",
  "readOnly",
  "errors",
  "check",
  "classify",
  "resultId",
  "limit",
  "repeats",
] as const;
const MEANINGS: ReadonlySet<unknown> = new Set(["doubt", "not-done", "answer"]);

export function isErrorMeaning(word: unknown): word is ErrorMeaning {
  return MEANINGS.has(word);
}

export function checkToolOptions(options: object, tool: string, extra: readonly string[] = []): void {
  const known = [...TOOL, ...GUARD, ...extra];
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) {
    throw noSuchOption(`tool ${JSON.stringify(tool)}`, wrong, known);
  }
  requireWhose(options, `tool ${JSON.stringify(tool)}`);
  checkMode(options, `tool ${JSON.stringify(tool)}`);
  checkTurn(options, `tool ${JSON.stringify(tool)}`);
  const { errors, action, readOnly, scope, tenant, agent, statusTool, onceMoreTool, resultId, check } =
    options as AnyToolOptions & GuardOptions<never>;
  if (typeof errors !== "function")
    checkErrors(errors, `tool ${JSON.stringify(tool)}`, ", or a function of the result that returns one of them");
  if (action !== undefined && (typeof action !== "string" || action.trim() === "")) {
    throw configError(`tool ${JSON.stringify(tool)}: action must be a name that is not blank.`);
  }
  if (readOnly !== undefined && typeof readOnly !== "boolean") {
    throw configError(`tool ${JSON.stringify(tool)}: readOnly is ${JSON.stringify(readOnly)}; it takes true or false.`);
  }
  if (agent !== undefined && typeof agent !== "function") checkAgent(agent, `tool ${JSON.stringify(tool)}`);
  if (resultId !== undefined && typeof resultId !== "function")
    throw configError(
      `tool ${JSON.stringify(tool)}: resultId must be a function from a result to the provider's id in it: (result) => result.id.`,
    );
  if (check !== undefined && typeof check !== "function")
    throw configError(
      `tool ${JSON.stringify(tool)}: check must be a function that throws where the tool must not begin: (input, ctx) => …`,
    );
  for (const [option, value] of Object.entries({ scope, tenant, statusTool, onceMoreTool })) {
    if (typeof value === "string" && value.trim() === "")
      throw configError(
        `tool ${JSON.stringify(tool)}: ${option} is ${JSON.stringify(value)}; it must not be blank.${option === "scope" ? " Where the same call happens once, whoever makes it, write scope: null." : ""}`,
      );
    if (value === undefined || typeof value === "string" || (option === "scope" && value === null)) continue;
    const isName = option === "statusTool" || option === "onceMoreTool";
    if (!isName && typeof value === "function") continue;
    const also = isName
      ? `: the name the ${option === "statusTool" ? "status" : "once-more"} tool has`
      : ", or a function of the call";
    throw configError(`tool ${JSON.stringify(tool)}: ${option} is ${JSON.stringify(value)}; it takes a text${also}.`);
  }
}

/** Any other word would guard where nothing was to be prevented, or the other way round. */
function checkMode({ mode }: GuardOptions<never>, where: string): void {
  if (mode === undefined || mode === "guard" || mode === "observe") return;
  throw configError(`${where}: mode is ${JSON.stringify(mode)}; it takes "guard" or "observe".`);
}

function checkTurn({ turn }: GuardOptions<never>, where: string): void {
  if (turn === undefined || typeof turn === "function") return;
  throw configError(`${where}: turn must be a function of the call: (call) => ({ call, turn }), the ids of both.`);
}

/** Whose intents a tool's calls are: an option that is there and undefined would make them everybody's. */
export function requireWhose(options: GuardOptions<never> & { readonly effect?: unknown }, where: string): void {
  requireGiven(where, options, ["tenant"]);
  if (!("scope" in options)) requireNoMoney(options, where);
  if (!("scope" in options) || options.scope !== undefined) return;
  throw configError(
    `${where}: scope is undefined. The variable it comes from may not be set. Give the id of the run, session or thread, a function of the call, or null where an intent happens once in any of them; or leave the option out.`,
  );
}

/**
 * A wrapper's own scope would make a payment another one in the next session. Whether that is meant is for the tool's author
 * to say.
 */
export function requireNoMoney(
  { effect, readOnly }: { readonly effect?: unknown; readonly readOnly?: boolean | undefined },
  where: string,
): void {
  if (!movesMoney(effect) || readOnly === true) return;
  throw configError(
    `${where}: effect is "payment", and scope is not given. The same payment in another scope is another payment, so say which: scope: null where it is made once in any session, the id of the order, customer or conversation, or a function of the call.`,
  );
}

/** For a wrapper that knows neither a person nor a conversation by itself: without a scope, one user would get another's result. */
export function requireScope(
  options: { readonly scope?: unknown; readonly readOnly?: boolean | undefined },
  where: string,
  example = "(call) => call.userId",
): void {
  if ("scope" in options || options.readOnly === true) return;
  throw configError(
    `${where}: scope is not given, and there is nothing to take it from: one user would get another's result. Write the id of the user or conversation, scope: ${example}, or scope: null where the same call happens once, whoever makes it.`,
  );
}

/** A call whose conversation is not known runs nothing. The sentence is read by a model, and by whoever wrote the program. */
export function noConversation(tool: string, what: string, remedy: string): NevertwiceError {
  return configError(
    `${tool} was not run, and nothing was sent: it is not known which conversation this call belongs to (${what}). Do not repeat it; tell the user that the program has to be corrected. For its developer: ${remedy}, or guard the tool with scope: the id of the user or conversation, or null where the same call happens once, whoever makes it.`,
  );
}

/** A word that is no meaning would be taken for one that holds everything, or nothing. */
export function checkErrors(errors: unknown, where: string, also = "", option = "errors"): void {
  if (errors === undefined || MEANINGS.has(errors)) return;
  const shown = typeof errors === "function" ? "a function" : JSON.stringify(errors);
  throw configError(`${where}: ${option} is ${shown}; it takes "doubt", "not-done", "answer"${also}.`);
}

/** The first argument of every guard. */
export function checkGuarding(nt: unknown, where: string): void {
  if (typeof (nt as Guarding | null | undefined)?.action === "function") return;
  throw configError(`${where}: the first argument must be what nevertwice() returned.`);
}

/** What a set of tools takes beside the tools: a misspelled word here would change the scope, or guard nothing. */
export function checkToolsOptions(options: object, where: string): void {
  const known = ["tools", "otherTools", "errors", ...GUARD];
  if (typeof options !== "object" || options === null) throw configError(`${where}: the options must be an object.`);
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) {
    throw configError(
      `${where}: there is no option ${JSON.stringify(wrong)}. The options are: ${known.join(", ")}. What is for one tool goes into tools: { name: { … } }, for all others into otherTools.`,
    );
  }
  requireWhose(options, where);
  checkMode(options, where);
  checkTurn(options, where);
  const { tools, otherTools, errors } = options as ToolsOptions<never>;
  checkErrors(errors, where);
  if (tools !== undefined && !isPlain(tools)) {
    throw configError(`${where}: tools takes a record of options by the tool's name: { send_mail: { key: ["to"] } }.`);
  }
  for (const [name, value] of Object.entries({ ...tools, ...(otherTools !== undefined && { otherTools }) })) {
    if (value === false) continue;
    if (isPlain(value)) {
      const whose = { ...value, ...options };
      if (!("scope" in whose))
        requireNoMoney(value, `${where}: ${name === "otherTools" ? name : `tool ${JSON.stringify(name)}`}`);
      continue;
    }
    throw configError(
      `${where}: the options of ${JSON.stringify(name)} are ${JSON.stringify(value)}; give an object such as { key: ["to"] }, or false for a tool that is left alone.`,
    );
  }
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The options of one tool out of a set; null: it is left alone. */
export function optionsOfTool<X>(
  { tools, otherTools, errors, ...guard }: ToolsOptions<X>,
  name: string,
): (AnyToolOptions & GuardOptions<X>) | null {
  const own = tools !== undefined && Object.hasOwn(tools, name) ? tools[name] : otherTools;
  return own === false ? null : { ...(errors !== undefined && { errors }), ...own, ...guard };
}

/** Whether the options are for this very tool, and not for all that have none of their own. */
export function isNamedTool<X>({ tools }: ToolsOptions<X>, name: string): boolean {
  return tools !== undefined && Object.hasOwn(tools, name);
}

/** Whether they say anything about how a tool is guarded, beside whose calls they are. */
export function saysHowToGuard(options: object): boolean {
  return Object.keys(options).some((name) => !(GUARD as readonly string[]).includes(name));
}

/** What a call's own context says about whose intent it is and who acts, as a call's options take it. */
export function callerOf<X>(
  { scope, tenant, agent }: GuardOptions<X>,
  extra: X,
  tool: string,
): { readonly scope?: string; readonly tenant?: string; readonly agent?: string } {
  const inScope = typeof scope === "function" ? asked(scope, extra, "scope", tool) : scope;
  if (typeof scope === "function" && inScope === undefined) {
    throw new NevertwiceError(
      "INVALID_KEY",
      `tool ${JSON.stringify(tool)}: scope gave undefined for this call. Nothing was run: without a scope, one conversation would get another's result. Return the id of the user, session, thread or run, or null where the same call happens once in any of them.`,
    );
  }
  const ofTenant = typeof tenant === "function" ? asked(tenant, extra, "tenant", tool) : tenant;
  if (typeof tenant === "function" && (typeof ofTenant !== "string" || ofTenant.trim() === "")) {
    const gave = typeof ofTenant === "object" && ofTenant !== null ? "an object" : JSON.stringify(ofTenant);
    throw new NevertwiceError(
      "INVALID_KEY",
      `tool ${JSON.stringify(tool)}: tenant gave ${gave} for this call. Nothing was run: without a tenant, one customer would get another's result. Return the customer's id, a string that is not blank; for calls that have no tenant, guard the tool without this option.`,
    );
  }
  const named = typeof agent === "function" ? agentFrom(asked(agent, extra, "agent", tool)) : agent;
  return {
    ...(inScope !== undefined && inScope !== null && { scope: inScope }),
    ...(ofTenant !== undefined && { tenant: ofTenant }),
    ...(named !== undefined && { agent: named }),
  };
}

/** What a function of the call threw, with the option that it is: its own message does not say that the tool never began. */
function asked<X, T>(option: (extra: X) => T, extra: X, name: string, tool: string): T {
  try {
    return option(extra);
  } catch (error) {
    // A wrapper's own says already what is missing.
    if (isNevertwiceError(error)) throw error;
    throw new NevertwiceError(
      "INVALID_KEY",
      `tool ${JSON.stringify(tool)}: its option ${name} threw ${messageOf(error)}. Nothing was run. For its developer: the function gets what the framework hands to the tool, where what it reads may be missing.`,
      { cause: error },
    );
  }
}

/** A misspelled name would leave the tool it meant with other options than intended. */
export function checkToolNames<X>({ tools }: ToolsOptions<X>, there: readonly string[], where: string): void {
  const missing = Object.keys(tools ?? {}).filter((name) => !there.includes(name));
  if (missing.length === 0) return;
  throw configError(
    `${where}: options are given for ${missing.join(", ")}, but there is no such tool. The tools are: ${there.join(", ") || "none"}.`,
  );
}

export function policyOf(options: AnyToolOptions): PolicyOptions<Probe<unknown, unknown>> {
  const policy = Object.fromEntries(
    POLICY.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  ) as PolicyOptions<Probe<unknown, unknown>>;
  return asDelivered(isContainer(options) ? asContainer(policy) : policy, options);
}

/** An option of the call's context, for a guard whose context holds that one. */
export function lifted<X, Y>(
  option: string | ((extra: X) => string | undefined),
  pick: (extra: Y) => X,
): string | ((extra: Y) => string | undefined) {
  return typeof option === "function" ? (extra) => option(pick(extra)) : option;
}
