/** An action as the engine knows it: the user's options, checked and resolved once. */
import { ownName } from "../core/entry-name.ts";
import { configError, type DoubtBecause, noSuchOption } from "../core/errors.ts";
import { type KeyFields, type KeyOption, keyFieldNames } from "../core/key/parts.ts";
import { type Limit, type LimitOptions, resolveLimit } from "../core/limit.ts";
import { type Policy, type PolicyOptions, type ProbeAnswer, resolvePolicy } from "../core/policy.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { WrittenAs } from "../core/way-out.ts";
import type { Check } from "./check-context.ts";
import type { AttemptContext } from "./context.ts";
import type { Exists } from "./exists.ts";
import { HOLDER_NOTE } from "./holder-ids.ts";
import { parsingSchema, type StandardSchema } from "./standard-schema.ts";

export type Verdictish = "not-sent" | "refused" | "rejected" | "doubt";

const VERDICTS: ReadonlySet<unknown> = new Set<Verdictish>(["not-sent", "refused", "rejected", "doubt"]);

export function isVerdict(answer: unknown): answer is Verdictish {
  return VERDICTS.has(answer);
}

/** Taken for a word that it resembles, an answer could send something twice: it counts as doubt, and is reported. */
export function notAVerdict(answer: unknown): string {
  const shown = typeof answer === "string" ? JSON.stringify(answer.slice(0, 40)) : `a value of type ${typeof answer}`;
  const allowed = [...VERDICTS].map((one) => JSON.stringify(one)).join(", ");
  return `classify answered ${shown}, which it may not: it answers ${allowed}, or undefined to leave an error to the built-in rules. Anything else counts as "doubt".`;
}

export type Probe<I, R> = (input: I, context: ProbeContext) => ProbeAnswer<R> | Promise<ProbeAnswer<R>>;

export interface ProbeContext {
  readonly key: string;
  /** The record's scope: a run, session or thread id, or whose the record is. */
  readonly scope: string | null;
  readonly attempt: number;
  /** Epoch ms: the first and the last time the effect may have left. */
  readonly firstSentAt: number;
  readonly lastSentAt: number;
  readonly signal: AbortSignal;
  providerKey: AttemptContext["providerKey"];
}

/** What an action's key was before it was changed, and the action's name if that was another one. */
export interface Formerly<I> {
  /** As it is now unless given. */
  readonly name?: string;
  /** As it is now unless given. A function may return null for an input that was no intent then. */
  readonly key?:
    | readonly (keyof NoInfer<I> & string)[]
    | ((input: I) => readonly unknown[] | null)
    | KeyFields<NoInfer<I>>;
}

export interface ActionOptions<I, R, D = undefined, Tx = unknown> extends PolicyOptions<Probe<I, R>> {
  /** Any Standard Schema (zod, valibot, arktype …). */
  readonly input?: StandardSchema<unknown, I>;
  /**
   * What makes two calls the same intent: field names, fields with what is made of them, or a function of the input. Without
   * it, every field that is not free.
   */
  readonly key?: KeyOption<I>;
  /**
   * The key, or the name, that the action had before: an intent recorded under it is found, and not run again. A list has the
   * latest first.
   */
  readonly formerly?: Formerly<I> | readonly Formerly<I>[];
  /** The action handles events that come in (webhooks, messages): the id of the event in its key is no mistake then. */
  readonly inbound?: boolean;
  /** Fields that may be reworded; all others must match on a repeat. */
  readonly free?: readonly (NoInfer<I> extends object ? keyof NoInfer<I> & string : string)[];
  /** "manual": `run` calls ctx.sent() right before the effect. */
  readonly mark?: "auto" | "manual";
  /**
   * Runs before the claim, where this call would claim: what it throws was surely not sent, leaves no record, and is thrown to
   * the caller as it was. Not asked for a repeat, nor by a worker: it was asked when the work was enqueued.
   */
  readonly check?: Check<I, Tx>;
  /** Runs before the send mark, so it is safe to run again. Its draft is stored with the mark and handed to `run`. */
  readonly prepare?: (input: I, context: AttemptContext<Tx>) => D | Promise<D>;
  readonly run: (input: I, context: AttemptContext<Tx>, draft: D) => R | Promise<R>;
  /**
   * The provider's own id in a result (a message id, a charge id): kept beside it, for nt.find({ providerId }). Without
   * it: a short text, or the field `id`, `messageId`, `sid` … of the result or of its `data`.
   */
  readonly resultId?: (result: R) => string | undefined;
  /** How much of it workers may have under way, or begin per time, at one destination; holds across processes. */
  readonly limit?: LimitOptions<I>;
  /** A second opinion on an error; undefined leaves it to the built-in rules. */
  readonly classify?: (error: unknown) => Verdictish | undefined;
  /** The effect is a row under a unique key: when `run` throws its violation, what is there. undefined: it is about another row. */
  readonly exists?: Exists<I, R>;
  readonly [HOLDER_NOTE]?: () => string | undefined;
  /** @internal */
  readonly [OWN_NAME]?: true;
}

export interface Definition {
  readonly name: string;
  readonly policy: Policy;
  readonly key: KeyOption<unknown> | undefined;
  /** Earlier names and keys, the latest first. */
  readonly formerly: readonly FormerDefinition[];
  /** Of a former name: the definition that took its place. */
  readonly successor?: Definition;
  readonly inbound: boolean;
  readonly free: readonly string[];
  readonly schema: StandardSchema<unknown, unknown> | undefined;
  readonly manual: boolean;
  readonly check?: Check<unknown> | undefined;
  readonly prepare: ((input: unknown, context: AttemptContext) => unknown) | undefined;
  readonly run: (input: unknown, context: AttemptContext, draft: unknown) => unknown;
  readonly resultId: ((result: unknown) => unknown) | undefined;
  readonly limit: Limit | null;
  readonly probe: Probe<unknown, unknown> | undefined;
  readonly classify: ((error: unknown) => Verdictish | DoubtBecause | undefined) | undefined;
  readonly exists: Exists<unknown, unknown> | undefined;
  /** A tool's guard defines its actions by itself: advice for its author names the tool's options. */
  readonly writtenAs: Exclude<WrittenAs, "unknown">;
  /** What the ids of its holders end with; absent: nothing. */
  readonly holderNote?: (() => string | undefined) | undefined;
}

export interface FormerDefinition {
  readonly name: string;
  readonly key: KeyOption<unknown> | undefined;
}

// By registered symbol: the guard may come from another copy of the package.
const TOOL = Symbol.for("nevertwice.tool");

/** Marks the `run` of the actions behind guarded tools. "proxy": the tool has no code here, only a config. */
export function runOfTool<F extends object>(run: F, writtenAs: "tool" | "proxy" = "tool"): F {
  return Object.assign(run, { [TOOL]: writtenAs });
}

/** A `run` made of a function of the context alone. Its length says whether that function takes the context. */
export function runOfContext<R>(
  work: (context: AttemptContext) => R,
  taken = work.length,
): (input: unknown, context: AttemptContext) => R {
  if (taken > 0) return (_input, context) => work(context);
  return (...[, context]: [unknown, AttemptContext]) => work(context);
}

/** Runs, sequences, jobs and notes have records under names of their own, and are told by them. A command job marks its options. */
/** Of the package's own entries (slots of jobs, imported steps), whose names no action of a program may have. Registered: they may be of another copy. */
export const OWN_NAME = Symbol.for("nevertwice.own-name");

export function requireUsersName(name: unknown, what: string, options?: object): void {
  if (typeof options === "object" && options !== null && OWN_NAME in options) return;
  const why = typeof name === "string" ? ownName(name) : null;
  if (why !== null) throw configError(`${what} ${JSON.stringify(name)}: ${why}.`);
}

const KNOWN = new Set(
  "input key formerly inbound free effect keep lease timeout wait doubt retry check prepare run resultId mark classify exists limit whenStoreDown".split(
    " ",
  ),
);

export function defineAction<I, R, D>(name: string, options: ActionOptions<I, R, D>): Definition {
  const where = `action ${JSON.stringify(name)}`;
  if (typeof name !== "string" || name.trim() === "" || name.length > 200) {
    throw configError(
      `an action's name must be a string of 1 to 200 characters that is not blank; got ${JSON.stringify(name)}.`,
    );
  }
  const unstorable = unstorableIn(name);
  if (unstorable !== null) throw configError(`${where}: its name cannot be kept: ${unstorable}. Leave it out.`);
  if (typeof options !== "object" || options === null || typeof options.run !== "function") {
    throw configError(
      `${where}: run is missing. Give it the function that performs the effect: { run: async (input, ctx) => … }.`,
    );
  }
  for (const option of Object.keys(options)) {
    if (!KNOWN.has(option)) {
      if (option === "errors")
        throw configError(
          `${where}: errors is an option of a guarded tool. An action says what an error means by classify.`,
        );
      throw noSuchOption(where, option, KNOWN);
    }
  }
  checkShapes(options, where);
  const doubt = options.doubt;
  return {
    name,
    policy: resolvePolicy(options, where),
    key: options.key as KeyOption<unknown> | undefined,
    formerly: readFormerly(name, options, where),
    inbound: options.inbound ?? false,
    free: options.free ?? [],
    schema: parsingSchema(options.input),
    manual: options.mark === "manual",
    check: options.check as Definition["check"],
    prepare: options.prepare as Definition["prepare"],
    run: options.run as Definition["run"],
    resultId: options.resultId as Definition["resultId"],
    limit: resolveLimit(options.limit, where),
    probe: (typeof doubt === "object" ? doubt.probe : undefined) as Definition["probe"],
    classify: options.classify,
    exists: options.exists as Definition["exists"],
    writtenAs: TOOL in options.run ? (options.run[TOOL] === "proxy" ? "proxy" : "tool") : "action",
    ...(options[HOLDER_NOTE] !== undefined && { holderNote: options[HOLDER_NOTE] }),
  };
}

function checkShapes<I, R, D>(options: ActionOptions<I, R, D>, where: string): void {
  const { input, key, free, mark, check, prepare, classify, inbound, exists, resultId } = options;
  if (input !== undefined && typeof input?.["~standard"]?.validate !== "function") {
    throw configError(
      `${where}: input is not a Standard Schema. Pass a schema of zod ≥ 3.24, valibot ≥ 1, arktype ≥ 2 or another that has "~standard".`,
    );
  }
  if (key !== undefined) checkKey(key, `${where}: key`);
  if (Array.isArray(key) && key.length === 0)
    throw configError(`${where}: key names no field. Every call would share one key: name at least one.`);
  if (inbound !== undefined && typeof inbound !== "boolean")
    throw configError(`${where}: inbound takes true or false.`);
  if (free !== undefined && !isNameList(free)) throw configError(`${where}: free takes a list of field names.`);
  const both = (keyFieldNames(key as KeyOption<never> | undefined) ?? []).filter((name) =>
    (free as readonly unknown[] | undefined)?.includes(name),
  );
  if (both.length > 0)
    throw configError(
      `${where}: ${both.join(", ")} cannot be in key and in free: a field that may change cannot name the intent.`,
    );
  if (mark !== undefined && mark !== "auto" && mark !== "manual")
    throw configError(`${where}: mark takes "auto" or "manual".`);
  if (check !== undefined && typeof check !== "function")
    throw configError(
      `${where}: check must be a function that throws where the effect must not begin: (input, ctx) => …`,
    );
  if (prepare !== undefined && typeof prepare !== "function")
    throw configError(`${where}: prepare must be a function.`);
  if (prepare !== undefined && mark === "manual") {
    throw configError(
      `${where}: prepare and mark: "manual" are two ways to say the same thing. Keep prepare, or call ctx.sent() in run.`,
    );
  }
  if (classify !== undefined && typeof classify !== "function")
    throw configError(`${where}: classify must be a function.`);
  if (resultId !== undefined && typeof resultId !== "function")
    throw configError(
      `${where}: resultId must be a function from a result to the provider's id in it: (result) => result.id.`,
    );
  if (exists !== undefined && typeof exists !== "function")
    throw configError(`${where}: exists must be a function: (error, input) => the result that is there, or undefined.`);
}

function checkKey(key: unknown, where: string): void {
  if (typeof key === "function" || isNameList(key)) return;
  if (typeof key === "object" && key !== null && !Array.isArray(key)) {
    const wrong = Object.entries(key).find(([, form]) => form !== true && typeof form !== "function");
    if (wrong === undefined && Object.keys(key).length > 0) return;
    if (wrong !== undefined)
      throw configError(
        `${where}.${wrong[0]}: a field of a key takes true, or a function of its value, such as email, text, amount("EUR") or day.`,
      );
  }
  throw configError(
    `${where} takes a list of field names, such as ["leadId", "template"], fields with what is made of them, such as { to: email, template: true }, or a function that returns a list of parts.`,
  );
}

const FORMER = new Set(["name", "key"]);
const MOST_FORMER = 8;

function readFormerly<I, R, D>(
  name: string,
  { formerly, key }: ActionOptions<I, R, D>,
  where: string,
): readonly FormerDefinition[] {
  if (formerly === undefined) return [];
  const given: readonly unknown[] = Array.isArray(formerly) ? formerly : [formerly];
  if (given.length > MOST_FORMER)
    throw configError(
      `${where}: formerly takes up to ${MOST_FORMER} earlier keys. Leave out those whose records are past their keep.`,
    );
  return given.map((one, index) => {
    const at = `${where}: formerly${given.length > 1 ? `[${index}]` : ""}`;
    if (typeof one !== "object" || one === null || Array.isArray(one))
      throw configError(
        `${at} takes what the key was before, such as { key: ["leadId"] }, and the old name if the action was renamed: { name, key }.`,
      );
    for (const option of Object.keys(one)) if (!FORMER.has(option)) throw noSuchOption(at, option, FORMER);
    const former = one as { readonly name?: unknown; readonly key?: unknown };
    if (former.name === undefined && former.key === undefined)
      throw configError(`${at} names neither a name nor a key. Give what was different: { key: … } or { name: … }.`);
    if (former.name !== undefined && (typeof former.name !== "string" || former.name.trim() === ""))
      throw configError(`${at}.name takes the name that the action had.`);
    if (former.key !== undefined) checkKey(former.key, `${at}.key`);
    return { name: former.name ?? name, key: (former.key ?? key) as KeyOption<unknown> | undefined };
  });
}

function isNameList(value: unknown): boolean {
  return Array.isArray(value) && value.every((name) => typeof name === "string" && name !== "");
}
