/**
 * For loops of your own: within one trace, the same call gets the first answer. On a ledger the memory outlives the
 * process; without one it lasts as long as the loop.
 */

import { classify } from "../../core/classify.ts";
import { configError, messageOf, noSuchOption, unmarked } from "../../core/errors.ts";
import { canonicalInput } from "../../core/key/canonical.ts";
import { deriveKey } from "../../core/key/key.ts";
import type { Outcome } from "../../core/outcome.ts";
import { ownCopy } from "../../core/own-copy.ts";
import { namedError, ReturnedError, unwrapped } from "../../core/returned-error.ts";
import type { CheckContext } from "../../engine/check-context.ts";
import { silentLogger } from "../../engine/context.ts";
import { isVerdict, notAVerdict } from "../../engine/definition.ts";
import { type Answer, type GuardedTool, guardTool } from "../guard-tool.ts";
import { isErrorAnswer, tellErrorReplay, tellRefusal, tellReplay } from "../messages.ts";
import { requireKeyOf } from "./fields.ts";
import { type AnyToolOptions, checkErrors, type ErrorMeaning, type Guarding } from "./options.ts";
import { failureIn } from "./result.ts";
import { verdictOnThrown, whyDoubt } from "./thrown.ts";

export interface ToolMemoryOptions {
  /** The trace, run or session: what is remembered is remembered there. */
  readonly scope: string;
  /** The ledger; without it the memory is the process's own. */
  readonly nt?: Guarding;
  /** How many more times a tool may really run for the same call, by its name: { roll_dice: 9 }. Infinity: always. */
  readonly repeats?: Readonly<Record<string, number>>;
  /** By tool: errors and classify; with a ledger also key, free, keep, doubt … */
  readonly tools?: Readonly<Record<string, AnyToolOptions>>;
  /** What errors mean for every tool whose own options do not say it: "not-done" where they mean that nothing happened. */
  readonly errors?: ErrorMeaning;
  readonly now?: () => number;
}

export interface ToolMemory {
  /** Runs the tool, or gives the first answer. `callId` tells the same call delivered twice from a second one. */
  call<R>(tool: string, args: unknown, run: () => R | Promise<R>, callId?: string): Promise<Answer<Awaited<R>>>;
}

interface Numbered {
  readonly args: unknown;
  /** 1, and more where repeats are allowed. */
  readonly turn: number;
}

const OPTIONS = ["scope", "nt", "repeats", "tools", "errors", "now"];

// A trace longer than this is a runaway loop. It is refused: to forget its first calls would run them again.
const MOST_CALLS = 10_000;

export function toolMemory(options: ToolMemoryOptions): ToolMemory {
  const { scope, nt, repeats = {}, now = Date.now } = options ?? {};
  if (typeof scope !== "string" || scope.trim() === "") {
    throw configError("toolMemory: scope is missing. Give the id of the run or session whose calls are remembered.");
  }
  const wrong = Object.keys(options).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) {
    throw noSuchOption("toolMemory", wrong, OPTIONS);
  }
  if (typeof repeats !== "object" || repeats === null) {
    throw configError(`toolMemory: repeats is ${String(repeats)}; it takes a number by the tool's name: { roll: 2 }.`);
  }
  for (const [tool, count] of Object.entries(repeats)) {
    if (count >= 0 && (Number.isInteger(count) || count === Number.POSITIVE_INFINITY)) continue;
    throw configError(`toolMemory: repeats.${tool} is ${String(count)}; it takes a whole number, or Infinity.`);
  }
  checkErrors(options.errors, "toolMemory");
  const limited = Object.entries(options.tools ?? {}).find(([, own]) => own.limit !== undefined);
  if (nt === undefined && limited !== undefined)
    throw configError(
      `toolMemory: tools.${limited[0]} has a limit, which is kept in a ledger. Give nt, or leave it out.`,
    );
  const turns = new Turns(repeats);
  const answer = nt === undefined ? inProcess(options, now) : onLedger(nt, options);
  return {
    async call(tool, args, run, callId) {
      if (typeof run !== "function") {
        throw configError(
          `toolMemory.call(${JSON.stringify(tool)}, …): the third argument must be the function that runs the tool.`,
        );
      }
      if (repeats[tool] === Number.POSITIVE_INFINITY) return { kind: "result", result: await run(), note: null };
      const turn = turns.of(tool, args, callId);
      return (await answer(tool, { args, turn }, run)) as Answer<Awaited<ReturnType<typeof run>>>;
    },
  };
}

type AnswerCall = (tool: string, input: Numbered, run: () => unknown) => Promise<Answer<unknown>>;

/** Which of its allowed turns a call is: a new one while there are any, otherwise the last. */
class Turns {
  readonly #repeats: Readonly<Record<string, number>>;
  readonly #counts = new Map<string, number>();
  readonly #byId = new Map<string, number>();

  constructor(repeats: Readonly<Record<string, number>>) {
    this.#repeats = repeats;
  }

  of(tool: string, args: unknown, callId: string | undefined): number {
    const most = 1 + (this.#repeats[tool] ?? 0);
    const call = callText(tool, args);
    if (most === 1) return 1;
    const id = callId === undefined ? null : `${callId} ${call}`;
    const known = id === null ? undefined : this.#byId.get(id);
    if (known !== undefined) return known;
    const turn = Math.min((this.#counts.get(call) ?? 0) + 1, most);
    // An id that is not known gets the last turn, once that was given out: it need not be remembered.
    const isNew = id !== null && turn < most;
    requireRoom(this.#counts, call);
    if (isNew) requireRoom(this.#byId, id);
    this.#counts.set(call, turn);
    if (isNew) this.#byId.set(id, turn);
    return turn;
  }
}

function callText(tool: string, args: unknown): string {
  return JSON.stringify([tool, args === undefined ? "" : canonicalInput(args, "arguments")]);
}

function requireRoom(map: ReadonlyMap<string, unknown>, key: string): void {
  if (map.size >= MOST_CALLS && !map.has(key))
    throw configError(
      `toolMemory: this trace has made ${MOST_CALLS} different calls. The tool was not run: no more can be remembered, and to forget the first ones would run them again. End the loop, or make a toolMemory with a new scope.`,
    );
}

/** A tool's own key and free fields are those of its arguments; the turn stands beside them in the key. */
function onLedger(nt: Guarding, options: ToolMemoryOptions): AnswerCall {
  const guards = new Map<string, GuardedTool<Record<string, unknown>, () => unknown, unknown>>();
  const guardOf = (tool: string) => {
    const { key, check, limit, ...own } = ownOptions(options, tool);
    const by = limit?.by;
    return guardTool<Record<string, unknown>, () => unknown, unknown>(
      nt,
      {
        ...own,
        name: tool,
        scope: options.scope,
        ...(check !== undefined && {
          check: (input: Record<string, unknown>, context: CheckContext) => check(withoutTurn(input), context),
        }),
        ...(limit !== undefined && {
          limit: { ...limit, ...(by && { by: (input: Record<string, unknown>) => by(withoutTurn(input)) }) },
        }),
        key: (input) => [...partsOf(input, key, own.free ?? []), input[TURN]],
      },
      (_input, run) => run(),
    );
  };
  return (tool, { args, turn }, run) => {
    const guard = guards.get(tool) ?? guardOf(tool);
    guards.set(tool, guard);
    const fields = typeof args === "object" && args !== null && !Array.isArray(args) ? args : { arguments: args };
    requireKeyOf(fields, ownOptions(options, tool), tool);
    return guard.answer({ ...fields, [TURN]: turn }, run);
  };
}

function ownOptions({ tools = {}, errors }: ToolMemoryOptions, tool: string): AnyToolOptions {
  const own = Object.hasOwn(tools, tool) ? tools[tool] : undefined;
  return { ...(errors !== undefined && { errors }), ...own };
}

const TURN = "(turn)";

function withoutTurn(input: Record<string, unknown>): Record<string, unknown> {
  const { [TURN]: _, ...args } = input;
  return args;
}

function partsOf(
  input: Record<string, unknown>,
  key: AnyToolOptions["key"],
  free: readonly string[],
): readonly unknown[] {
  const args = withoutTurn(input);
  if (typeof key === "function") return key(args);
  if (key !== undefined) return (key as readonly string[]).map((name) => args[name]);
  const guarded = Object.fromEntries(
    Object.entries(args).filter(([name, value]) => !free.includes(name) && value !== undefined),
  );
  return Object.keys(guarded).length === 0 ? ["no arguments"] : [JSON.parse(canonicalInput(guarded, "arguments"))];
}

/** The same answers from a map: a result is kept, a doubt is kept, what surely did not happen is forgotten. */
function inProcess(options: ToolMemoryOptions, now: () => number): AnswerCall {
  const { scope } = options;
  const known = new Map<string, Promise<Outcome<unknown>>>();
  return async (tool, { args, turn }, run) => {
    const call = callText(tool, args);
    const key = deriveKey({ tenant: "", action: tool, version: turn, scope, parts: [call], secret: undefined });
    const earlier = known.get(key);
    if (earlier !== undefined) return repeated(await earlier, tool);
    requireRoom(known, key);
    let thrown: { readonly error: unknown } | null = null;
    let returned: { readonly result: unknown } | null = null;
    let direct: unknown;
    let began = false;
    const work = (async (): Promise<Outcome<unknown>> => {
      try {
        const own = ownOptions(options, tool);
        await own.check?.(args, { key, tenant: "", scope, signal: NEVER, log: silentLogger, tx: undefined });
        began = true;
        const result = await run();
        const failure =
          own.errors === "answer" ? null : (failureIn({ codec: {} }, result) ?? namedFailure(result, own));
        if (failure !== null) {
          returned = { result };
          throw failure;
        }
        direct = result;
        return { status: "done", key, result: ownCopy(result), replayed: false, attempt: 1, at: now() };
      } catch (error) {
        thrown = { error };
        const why = began ? doubtIn(error, ownOptions(options, tool), now()) : null;
        if (why !== null) return { status: "unknown", key, since: now(), attempt: 1, why };
        known.delete(key);
        return { status: "failed", key, error, final: false };
      }
    })();
    known.set(key, work);
    const outcome = await work;
    if (outcome.status === "done") return { kind: "result", result: direct, note: null };
    const { error } = thrown as unknown as { error: unknown };
    // What the tool answered is for the model to read; it is only not remembered.
    const answered = returned as { readonly result: unknown } | null;
    if (outcome.status === "failed" && answered !== null)
      return { kind: "result", result: answered.result, note: null };
    if (outcome.status === "failed") throw unmarked(error);
    return { kind: "refused", text: tellRefusal(outcome, { tool, said: messageOf(error) }), outcome };
  };
}

// Nothing ends a check of a memory that lives in the process: its caller waits for it as for the tool.
const { signal: NEVER } = new AbortController();

/** An object that names an error, where the tool's options say what its errors mean. */
function namedFailure(result: unknown, { errors }: AnyToolOptions): ReturnedError | null {
  if (errors === undefined || namedError(result) === null) return null;
  const { error, message } = unwrapped(result) as { readonly error?: unknown; readonly message?: unknown };
  const named =
    typeof error === "object" && error !== null
      ? error
      : { message: error ?? message ?? "the tool answered with an error" };
  return new ReturnedError(result, named, undefined);
}

/** Why it may have happened all the same; null: it surely did not. */
function doubtIn(error: unknown, own: AnyToolOptions, now: number): string | null {
  const said = verdictOnThrown(error, own);
  if (said === "doubt") return whyDoubt(own);
  if (said !== undefined && !isVerdict(said)) return notAVerdict(said);
  const verdict = said === undefined ? classify(error, now) : null;
  return verdict?.kind === "doubt" ? verdict.why : null;
}

function repeated(outcome: Outcome<unknown>, tool: string): Answer<unknown> {
  if (outcome.status === "done") {
    const tell = isErrorAnswer(outcome.result) ? tellErrorReplay : tellReplay;
    return { kind: "result", result: ownCopy(outcome.result), note: tell(outcome, { tool }) };
  }
  return { kind: "refused", text: tellRefusal(outcome, { tool }), outcome };
}
