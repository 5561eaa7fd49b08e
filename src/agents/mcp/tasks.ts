/**
 * Tools that run as tasks (MCP's task-augmented calls): the call returns a task, and the effect comes later. How a task ends is
 * learned by asking for it, until it has.
 */
import type { Outcome } from "../../core/outcome.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import type { ToolResult } from "./result.ts";

export interface Task {
  readonly taskId: string;
  readonly status?: string;
  readonly statusMessage?: string;
  readonly pollInterval?: number;
}

export interface CreatedTask {
  readonly task: Task;
}

export function isCreatedTask(result: unknown): result is CreatedTask {
  const task = (result as { task?: Partial<Task> } | null | undefined)?.task;
  return typeof task === "object" && task !== null && typeof task.taskId === "string";
}

/** Whoever knows of tasks. */
export interface TaskSource {
  /** Throws, or returns nothing, where there is none. */
  getTask(taskId: string): Promise<Task | null | undefined>;
  getTaskResult(taskId: string): Promise<ToolResult>;
}

type KnowsTasks = Pick<TaskSource, "getTask">;

/** How a task ended. `by`: the tool said so itself, or somebody else did, and the tool's work may go on. */
export interface TaskEnd {
  readonly status: "completed" | "failed" | "cancelled";
  readonly by: "tool" | "store";
  readonly result: ToolResult;
}

/** Nobody can say how the task ended. */
export class TaskGone extends Error {
  override readonly name = "TaskGone";
}

const ENDED: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

export function isEnd(status: unknown): status is TaskEnd["status"] {
  return ENDED.has(status);
}

// A session that has ended, a server that is gone: nobody will say how the task ended.
const LONGEST_SILENCE_MS = 600_000;

/** Asks until the task has ended. */
export async function pollTask(
  source: TaskSource,
  { taskId, pollInterval }: Task,
  pause: (ms: number) => Promise<unknown> = sleep,
): Promise<TaskEnd> {
  const every = Math.min(Math.max(pollInterval ?? 1_000, 50), 5_000);
  for (let silentMs = 0; ; ) {
    await pause(every);
    const task = await lookAtTask(source, taskId);
    silentMs = task === undefined ? silentMs + every : 0;
    if (task === null || silentMs > LONGEST_SILENCE_MS) return goneTask(taskId);
    if (!isEnd(task?.status)) continue;
    const result = await source.getTaskResult(taskId).catch(() => saying(task?.statusMessage));
    return { status: task.status, by: "store", result };
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

// How a server answers for a task that is not there (or is another session's).
const INVALID_PARAMS = -32_602;

/** undefined: there was no answer; it is asked again. */
export async function lookAtTask(source: KnowsTasks, taskId: string): Promise<Task | null | undefined> {
  try {
    return (await source.getTask(taskId)) ?? null;
  } catch (error) {
    return (error as { code?: unknown })?.code === INVALID_PARAMS ? null : undefined;
  }
}

export async function goneTask(taskId: string): Promise<never> {
  throw new TaskGone(`task ${taskId} cannot be found any more, and nobody said how it ended`);
}

export function saying(message: string | undefined): ToolResult {
  return { content: message === undefined ? [] : [{ type: "text", text: message }] };
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

interface Running {
  readonly created: Promise<CreatedTask | null>;
  readonly over: Deferred<void>;
}

/** The task that a call works on, for its repeats. */
export class RunningTasks {
  readonly #running = new Map<string, Running>();

  begin(key: string, created: Promise<CreatedTask | null>): void {
    this.#running.set(key, { created, over: deferred() });
  }

  end(key: string): void {
    this.#running.get(key)?.over.resolve();
    this.#running.delete(key);
  }

  /** When it is over; undefined: none works in this process. */
  over(key: string): Promise<void> | undefined {
    return this.#running.get(key)?.over.promise;
  }

  /**
   * The task of a call that is under way in this process, as it is now; null: there is none, or this caller's source does not
   * know it. A call may have claimed, and not begun yet.
   */
  async same({ key, status }: Outcome<unknown>, source: KnowsTasks | undefined): Promise<CreatedTask | null> {
    for (let looks = status === "in_flight" ? 20 : 1; looks > 0; looks -= 1) {
      const running = this.#running.get(key);
      if (running !== undefined) return again(await running.created, source);
      if (looks > 1) await sleep(50);
    }
    return null;
  }
}

async function again(created: CreatedTask | null, source: KnowsTasks | undefined): Promise<CreatedTask | null> {
  if (created === null || source === undefined) return created;
  const task = await lookAtTask(source, created.task.taskId);
  return task === null || task === undefined ? null : { task };
}
