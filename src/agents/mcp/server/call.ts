/** One tool of an MCP server under its guard, however it was registered: what its calls answer, and when they are done. */
import { asContainer } from "../../../core/policy.ts";
import { currentAttempt } from "../../../engine/context.ts";
import { type Answer, guardTool } from "../../guard-tool.ts";
import {
  checkErrors,
  type ErrorMeaning,
  type Guarding,
  type GuardOptions,
  type ToolOptions,
} from "../../tool/options.ts";
import { Elicitations } from "../elicitation.ts";
import { Judged } from "../judged.ts";
import { mcpResult, type ToolResult } from "../result.ts";
import { type CreatedTask, deferred, isCreatedTask, RunningTasks, type TaskEnd } from "../tasks.ts";
import { answersIn, heardContext, noting } from "./elicitation.ts";
import type { McpExtra, McpScope } from "./scope.ts";
import { endedTask, type TaskStore, TaskWatch, taskStoreOf } from "./tasks.ts";
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
  const judged = new Judged({ declined, errors: own.errors });
  const options = {
    ...(isTask ? asContainer({ wait: 0, ...own }) : own),
    name,
    scope: typeof scope === "function" ? ({ extra }: Live) => scope(extra) : scope,
    ...(tenant !== undefined && { tenant: typeof tenant === "function" ? ({ extra }: Live) => tenant(extra) : tenant }),
    ...(agent !== undefined && { agent: typeof agent === "function" ? ({ extra }: Live) => agent(extra) : agent }),
    ...(turn !== undefined && { turn: ({ extra }: Live) => turn(extra) }),
    ...(turn === undefined && connection && { turn: turnOn(connection, name) }),
    classify: (error: unknown) =>
      judged.verdict(error) ?? own.classify?.(error) ?? (notBegun(error) ? "refused" : undefined),
  };
  const running = runningTasks(nt);
  const guarded = guardTool<Args, Live, ToolResult>(nt, options, handle, judged.codec);

  async function handle(args: Args, call: Live): Promise<ToolResult> {
    const elicitations = new Elicitations(answersIn(call.extra));
    const watch = new TaskWatch();
    const attempt = currentAttempt();
    const key = attempt?.key;
    const tool = async () => call.run(args, watch.listening(heardContext(call.extra)));
    return judged.run(elicitations, async () => {
      try {
        const created = noting(elicitations, tool);
        if (call.asTask && key !== undefined)
          running.begin(
            key,
            created.then(taskIn, () => null),
          );
        const result = await created;
        if (!isCreatedTask(result)) return result;
        call.created(result);
        const late = ({ status, result }: TaskEnd) => {
          if (status === "completed" && attempt !== undefined) guarded.settleLate(attempt, result).catch(() => {});
        };
        return judged.ended(await watch.end(result.task, call.tasks ?? taskStoreOf(call.extra), late));
      } finally {
        if (key !== undefined) running.end(key);
      }
    });
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
  const same = outcome === null ? null : await running.same(outcome, tasks ?? taskStoreOf(extra));
  return same ?? (await endedTask(mcpResult(answer), extra));
}

function taskIn(result: unknown): CreatedTask | null {
  return isCreatedTask(result) ? result : null;
}
