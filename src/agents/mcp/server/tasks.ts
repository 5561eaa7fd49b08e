/**
 * Tasks of a server in this process (SDK 1.x): their end is learned from what the tool itself tells the task store, and by asking
 * the store, which also knows of a client that cancelled.
 */
import type { ToolResult } from "../result.ts";
import {
  type CreatedTask,
  goneTask,
  isEnd,
  lookAtTask,
  pollTask,
  saying,
  type Task,
  type TaskEnd,
  type TaskSource,
} from "../tasks.ts";
import type { McpExtra } from "./scope.ts";

/** What is needed of the store that SDK 1.x hands to a call (`extra.taskStore`). */
export interface TaskStore extends TaskSource {
  createTask?(params: object): Promise<Task>;
  storeTaskResult?(taskId: string, status: "completed" | "failed", result: ToolResult): Promise<void>;
  updateTaskStatus?(taskId: string, status: string, message?: string): Promise<void>;
}

export function taskStoreOf(extra: McpExtra): TaskStore | undefined {
  const { taskStore } = extra as { taskStore?: TaskStore };
  return typeof taskStore?.getTask === "function" ? taskStore : undefined;
}

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
        if (isEnd(status)) this.#told(taskId, { status, by: "tool", result: saying(message) });
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
  async end(task: Task, store: TaskStore | undefined, late: (end: TaskEnd) => void): Promise<TaskEnd> {
    const { taskId } = task;
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
    // Once the race is decided nothing is asked any more.
    const asked = store && {
      getTask: async (id: string) => (over ? null : store.getTask(id)),
      getTaskResult: (id: string) => store.getTaskResult(id),
    };
    try {
      return await Promise.race([told, asked === undefined ? goneTask(taskId) : pollTask(asked, task)]);
    } finally {
      over = true;
    }
  }
}

/** An answer that is there already, as a task that has ended: a client that asked for a task gets one. */
export async function endedTask(result: ToolResult, extra: McpExtra): Promise<CreatedTask | ToolResult> {
  const store = taskStoreOf(extra);
  if (store?.createTask === undefined || store.storeTaskResult === undefined) return result;
  const ttl = (extra as { taskRequestedTtl?: number | null }).taskRequestedTtl;
  const task = await store.createTask(ttl === undefined ? {} : { ttl });
  await store.storeTaskResult(task.taskId, result.isError === true ? "failed" : "completed", result);
  return { task: (await lookAtTask(store, task.taskId)) ?? { ...task, status: "completed" } };
}
