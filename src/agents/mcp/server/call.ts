/** One tool of an MCP server under its guard, however it was registered: what its calls answer, and when they are done. */
import { classify } from "../../../core/classify.ts";
import { messageOf } from "../../../core/errors.ts";
import type { Outcome } from "../../../core/outcome.ts";
import { asContainer } from "../../../core/policy.ts";
import { isUnclassified } from "../../../core/way-out.ts";
import { currentAttempt } from "../../../engine/context.ts";
import type { Verdictish } from "../../../engine/definition.ts";
import { setTimeout } from "../../../engine/real-timers.ts";
import { type Answer, type AttemptOf, guardTool, type ResultCodec } from "../../guard-tool.ts";
import { soundsInterrupted } from "../../interrupted.ts";
import {
  checkErrors,
  type ErrorMeaning,
  type Guarding,
  type GuardOptions,
  type ToolOptions,
} from "../../tool-options.ts";
import { mcpCodec, mcpResult, type ToolResult, textOf } from "../result.ts";
import { answersIn, Elicitations, heardContext, noting } from "./elicitation.ts";
import type { McpExtra, McpScope } from "./scope.ts";
import {
  type CreatedTask,
  endedTask,
  isCreatedTask,
  RunningTasks,
  type TaskEnd,
  TaskGone,
  type TaskStore,
  TaskWatch,
  taskStoreOf,
} from "./tasks.ts";
import { type Connection, turnOn } from "./turn.ts";

// biome-ignore lint/suspicious/noExplicitAny: as for AnyToolOptions
export interface McpToolOptions extends ToolOptions<any, any> {
  /**
   * What a call means in which the user declined or cancelled what the tool asked (elicitation). Default: "not-done", and "doubt"
   * where another question was accepted before. "answer" for a tool that does its work all the same, such as one that asks for
   * something optional: its result then counts.
   */
  readonly declined?: ErrorMeaning;
}

export type McpGuardOptions = McpToolOptions & GuardOptions<McpExtra> & { readonly scope: McpScope };

export type Args = Readonly<Record<string, unknown>>;

/** One call: what it was given, and the tool itself. */
export interface McpCall {
  readonly extra: McpExtra;
  readonly run: (args: Args, extra: McpExtra) => unknown;
  /** The client asked for a task. */
  readonly asTask: boolean;
  /** Knows of the tasks that the tool creates; that of the call's context unless given. */
  readonly tasks?: TaskStore | undefined;
}

interface Live extends McpCall {
  readonly created: (task: CreatedTask | null) => void;
}

export type GuardedCall = (args: Args, call: McpCall) => Promise<unknown>;

interface HowCalled {
  readonly isTask?: boolean;
  readonly notBegun?: (error: unknown) => boolean;
  /** The one of the moment, where the server is known. */
  readonly connection?: Connection;
}

/** `isTask`: it is known to run as a task. Those take as long as they take; a repeat does not wait for the end. */
export function guardCall(
  nt: Guarding,
  name: string,
  { declined, scope, tenant, agent, turn, ...own }: McpGuardOptions,
  { isTask = false, notBegun = () => false, connection }: HowCalled = {},
): GuardedCall {
  checkErrors(declined, `tool ${JSON.stringify(name)}`, "", "declined");
  const judged = new WeakMap<object, ErrorMeaning>();
  const verdicts = new WeakMap<object, Verdictish>();
  const codec: ResultCodec<ToolResult> = {
    ...mcpCodec,
    meaning: (result) => (isObject(result) ? judged.get(result) : undefined),
  };
  const options = {
    ...(isTask ? asContainer({ wait: 0, ...own }) : own),
    name,
    scope: typeof scope === "function" ? ({ extra }: Live) => scope(extra) : scope,
    ...(tenant !== undefined && { tenant: typeof tenant === "function" ? ({ extra }: Live) => tenant(extra) : tenant }),
    ...(agent !== undefined && { agent: typeof agent === "function" ? ({ extra }: Live) => agent(extra) : agent }),
    ...(turn !== undefined && { turn: ({ extra }: Live) => turn(extra) }),
    ...(turn === undefined && connection && { turn: turnOn(connection, name) }),
    classify: (error: unknown) =>
      (isObject(error) ? verdicts.get(error) : undefined) ??
      own.classify?.(error) ??
      (notBegun(error) ? "refused" : undefined),
  };
  const running = runningTasks(nt);
  const guarded = guardTool<Args, Live, ToolResult>(nt, options, handle, codec);

  async function handle(args: Args, call: Live): Promise<ToolResult> {
    const elicitations = new Elicitations(answersIn(call.extra));
    const watch = new TaskWatch();
    const attempt = currentAttempt();
    const key = attempt?.key;
    let result: unknown;
    const tool = async () => call.run(args, watch.listening(heardContext(call.extra)));
    try {
      const created = noting(elicitations, tool);
      if (call.asTask && key !== undefined)
        running.begin(
          key,
          created.then(taskIn, () => null),
        );
      result = await created;
      if (isCreatedTask(result)) {
        call.created(result);
        result = await ended(result, watch, call, attempt);
      }
    } catch (error) {
      const verdict = error instanceof TaskGone ? "doubt" : verdictOnDeclined(error, declined ?? elicitations.declined);
      if (isObject(error) && verdict !== undefined && (elicitations.declined !== null || error instanceof TaskGone))
        verdicts.set(error, verdict);
      throw error;
    } finally {
      if (key !== undefined) running.end(key);
    }
    if (elicitations.declined !== null && isObject(result) && !judged.has(result)) {
      const meaning = declined ?? meaningOfDeclined(result, elicitations.declined);
      // "answer": as if nothing had been asked.
      if (declined !== "answer") judged.set(result, meaning);
    }
    return result as ToolResult;
  }

  async function ended(
    { task }: CreatedTask,
    watch: TaskWatch,
    call: Live,
    of: AttemptOf | undefined,
  ): Promise<ToolResult> {
    const late = ({ status, result }: TaskEnd) => {
      if (status === "completed" && of !== undefined) guarded.settleLate(of, result).catch(() => {});
    };
    const { status, by, result } = await watch.end(task, call.tasks ?? taskStoreOf(call.extra), late);
    if (status === "completed") return result;
    const failed = { ...result, isError: true };
    // A tool that says itself that it stopped has stopped. Of a client's word it need not even know.
    if (status === "cancelled") judged.set(failed, by === "tool" ? "not-done" : meaningOfCancelled(failed, own.errors));
    return failed;
  }

  return async (args, { extra, run, asTask, tasks }) => {
    if (!asTask) return mcpResult(await guarded.answer(args, { extra, run, asTask, tasks, created: () => {} }));
    const opened = deferred<CreatedTask | null>();
    const answer = guarded.answer(args, { extra, run, asTask, tasks, created: opened.resolve });
    const first = await Promise.race([opened.promise, answer]);
    if (isCreatedTask(first)) {
      // From here on the ledger has the word: the record says how it ended.
      answer.catch(() => {});
      return first;
    }
    return answerAsTask(await answer, running, extra, tasks);
  };
}

const byLedger = new WeakMap<Guarding, RunningTasks>();

/** One for all servers of a program: each session may have a server of its own. */
function runningTasks(nt: Guarding): RunningTasks {
  const known = byLedger.get(nt) ?? new RunningTasks();
  byLedger.set(nt, known);
  return known;
}

async function answerAsTask(
  answer: Answer<ToolResult>,
  running: RunningTasks,
  extra: McpExtra,
  tasks: TaskStore | undefined,
) {
  // The tool itself answered without a task.
  if (answer.kind === "result" && answer.note === null) return answer.result;
  const outcome = answer.kind === "refused" ? answer.outcome : null;
  const same = outcome === null ? null : await sameTask(outcome, running, tasks ?? taskStoreOf(extra));
  return same ?? (await endedTask(mcpResult(answer), extra));
}

/** A call that runs in this process may have claimed, and not begun yet. */
async function sameTask({ key, status }: Outcome<unknown>, running: RunningTasks, store: TaskStore | undefined) {
  for (let looks = status === "in_flight" ? 20 : 1; looks > 0; looks -= 1) {
    if (running.has(key)) return running.again(key, store);
    if (looks > 1) await new Promise<void>((resolve) => setTimeout(resolve, 50));
  }
  return null;
}

function taskIn(result: unknown): CreatedTask | null {
  return isCreatedTask(result) ? result : null;
}

/** An error that follows a decline reports it, unless a rule knows the error, or it reads like a lost answer. */
function verdictOnDeclined(error: unknown, meaning: ErrorMeaning | null): Verdictish | undefined {
  if (meaning !== "not-done") return meaning === "doubt" ? "doubt" : undefined;
  const verdict = classify(error, 0);
  const isOpen = verdict.kind === "doubt" && isUnclassified(verdict.why);
  return isOpen && !soundsInterrupted(apartFromCancelling(messageOf(error))) ? "refused" : undefined;
}

function meaningOfDeclined(result: object, declined: "not-done" | "doubt"): ErrorMeaning {
  const said = (result as ToolResult).isError === true ? (textOf(result as ToolResult) ?? "") : "";
  return soundsInterrupted(apartFromCancelling(said)) ? "doubt" : declined;
}

/** "Cancelled by the user" is no lost answer. */
function apartFromCancelling(text: string): string {
  return text.replace(/\b(?:cancel|abort|terminat|interrupt)\w*/gi, "");
}

/** The tool's work may go on after a client's tasks/cancel. */
function meaningOfCancelled(result: ToolResult, errors: McpToolOptions["errors"]): ErrorMeaning {
  return typeof errors === "function" ? errors(result) : (errors ?? "doubt");
}

function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
