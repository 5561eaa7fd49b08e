/**
 * Tools that run as tasks (MCP's task-augmented calls, SDK 1.x): the call returns a task, and the effect comes later. Its end is
 * learned from what the tool itself tells the task store, and by asking the store, which also knows of a client that cancelled.
 */
import { setTimeout } from "../../../engine/real-timers.ts";
import type { ToolResult } from "../result.ts";
import type { McpExtra } from "./scope.ts";

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

/** What is needed of the store that SDK 1.x hands to a call (`extra.taskStore`). */
export interface TaskStore {
  createTask?(params: object): Promise<Task>;
  storeTaskResult?(taskId: string, status: "completed" | "failed", result: ToolResult): Promise<void>;
  updateTaskStatus?(taskId: string, status: string, message?: string): Promise<void>;
  /** Throws, or returns nothing, where there is none. */
  getTask(taskId: string): Promise<Task | null | undefined>;
  getTaskResult(taskId: string): Promise<ToolResult>;
}

export function taskStoreOf(extra: McpExtra): TaskStore | undefined {
  const { taskStore } = extra as { taskStore?: TaskStore };
  return typeof taskStore?.getTask === "function" ? taskStore : undefined;
}

/** How a task ended. `by`: the tool said so itself, or the store did, where the tool's work may go on. */
export interface TaskEnd {
  readonly status: "completed" | "failed" | "cancelled";
  readonly by: "tool" | "store";
  readonly result: ToolResult;
}

/** The task's store has forgotten it: nobody can say how it ended. */
export class TaskGone extends Error {
  override readonly name = "TaskGone";
}

const ENDED: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** One call's task: what the tool tells the store about it. */
export class TaskWatch {
  readonly #ends = new Map<string, TaskEnd>();
  #onEnd: (taskId: string, end: TaskEnd) => void = () => {};

  /** The call's context with a store that is listened to. */
  listening(extra: McpExtra): McpExtra {
    const store = taskStoreOf(extra);
    if (store === undefined) return extra;
    const taskStore: TaskStore = {
      ...store,
      storeTaskResult: async (taskId, status, result) => {
        this.#told(taskId, { status, by: "tool", result });
        await store.storeTaskResult?.(taskId, status, result);
      },
      updateTaskStatus: async (taskId, status, message) => {
        if (ENDED.has(status))
          this.#told(taskId, { status: status as TaskEnd["status"], by: "tool", result: saying(message) });
        await store.updateTaskStatus?.(taskId, status, message);
      },
    };
    return { ...extra, taskStore };
  }

  #told(taskId: string, end: TaskEnd): void {
    if (this.#ends.has(taskId)) return;
    this.#ends.set(taskId, end);
    this.#onEnd(taskId, end);
  }

  /** `late`: what the tool tells after its task had ended for the store. */
  async end(
    { taskId, pollInterval }: Task,
    store: TaskStore | undefined,
    late: (end: TaskEnd) => void,
  ): Promise<TaskEnd> {
    let over = false;
    const told = new Promise<TaskEnd>((resolve) => {
      this.#onEnd = (of, end) => {
        if (of !== taskId) return;
        if (over) late(end);
        resolve(end);
      };
      const known = this.#ends.get(taskId);
      if (known !== undefined) resolve(known);
    });
    const polled = store === undefined ? gone(taskId) : poll(store, taskId, pollEvery(pollInterval), () => over);
    try {
      return await Promise.race([told, polled]);
    } finally {
      over = true;
    }
  }
}

async function poll(store: TaskStore, taskId: string, ms: number, over: () => boolean): Promise<TaskEnd> {
  for (;;) {
    await new Promise<void>((resolve) => {
      setTimeout(resolve, ms).unref();
    });
    // The race is decided.
    if (over()) return { status: "completed", by: "store", result: {} };
    const task = await look(store, taskId);
    if (task === null) return gone(taskId);
    if (!ENDED.has(task?.status)) continue;
    const status = task?.status as TaskEnd["status"];
    const result = await store.getTaskResult(taskId).catch(() => saying(task?.statusMessage));
    return { status, by: "store", result };
  }
}

// How the SDK's own store answers for a task that is not there (or is another session's).
const INVALID_PARAMS = -32_602;

/** undefined: the store did not answer; it is asked again. */
async function look(store: TaskStore, taskId: string): Promise<Task | null | undefined> {
  try {
    return (await store.getTask(taskId)) ?? null;
  } catch (error) {
    return (error as { code?: unknown })?.code === INVALID_PARAMS ? null : undefined;
  }
}

async function gone(taskId: string): Promise<never> {
  throw new TaskGone(`task ${taskId} cannot be found any more, and nobody said how it ended`);
}

function pollEvery(ms: number | undefined): number {
  return Math.min(Math.max(ms ?? 1_000, 50), 5_000);
}

function saying(message: string | undefined): ToolResult {
  return { content: message === undefined ? [] : [{ type: "text", text: message }] };
}

/** The task that a call works on, for its repeats. */
export class RunningTasks {
  readonly #created = new Map<string, Promise<CreatedTask | null>>();

  begin(key: string, created: Promise<CreatedTask | null>): void {
    this.#created.set(key, created);
  }

  end(key: string): void {
    this.#created.delete(key);
  }

  has(key: string): boolean {
    return this.#created.has(key);
  }

  /** The same task as it is now; null: there is none in this process, or this caller's store does not know it. */
  async again(key: string, store: TaskStore | undefined): Promise<CreatedTask | null> {
    const created = await this.#created.get(key);
    if (created === undefined || created === null) return null;
    if (store === undefined) return created;
    const task = await look(store, created.task.taskId);
    return task === null || task === undefined ? null : { task };
  }
}

/** An answer that is there already, as a task that has ended: a client that asked for a task gets one. */
export async function endedTask(result: ToolResult, extra: McpExtra): Promise<CreatedTask | ToolResult> {
  const store = taskStoreOf(extra);
  if (store?.createTask === undefined || store.storeTaskResult === undefined) return result;
  const ttl = (extra as { taskRequestedTtl?: number | null }).taskRequestedTtl;
  const task = await store.createTask(ttl === undefined ? {} : { ttl });
  await store.storeTaskResult(task.taskId, result.isError === true ? "failed" : "completed", result);
  return { task: (await look(store, task.taskId)) ?? { ...task, status: "completed" } };
}
