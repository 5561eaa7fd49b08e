/**
 * Tasks of the server behind the proxy. A call that is answered with a task is under way until the task has ended: the proxy asks
 * for it (tasks/get) over its caller's connection, and sooner where the client hears of its end.
 */
import { randomUUID } from "node:crypto";
import { deriveKey } from "../../core/key/key.ts";
import { readNote, writeNote } from "../../core/note.ts";
import type { Outcome } from "../../core/outcome.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import { withoutTimeout } from "../../engine/context.ts";
import type { AttemptOf } from "../guard-tool.ts";
import { type Delivery, NO_DELIVERY } from "./delivery.ts";
import { Elicitations } from "./elicitation.ts";
import type { ToolResult } from "./result.ts";
import { INVALID_PARAMS, type RpcMessage } from "./rpc.ts";
import {
  type CreatedTask,
  type Deferred,
  deferred,
  isCreatedTask,
  isEnd,
  lookAtTask,
  pollTask,
  RunningTasks,
  sleep,
  type Task,
  type TaskEnd,
  TaskGone,
  type TaskSource,
} from "./tasks.ts";

/** A request of the proxy's own, over one caller's connection. */
export type Ask = (method: string, params: object) => Promise<ToolResult>;

/** An answer of the proxy's own. */
export interface OwnAnswer extends Pick<RpcMessage, "result" | "error"> {
  readonly delivery: Delivery;
}

/** The server's answer to a request about a task, before it goes to the client: resolves when the ledger knows what it says. */
export type TaskAnswer = (answer: RpcMessage) => Promise<Delivery>;

/** One task and whose it is. */
export interface TaskOf {
  readonly scope: string;
  readonly task: Task;
  readonly ask: Ask;
  readonly asked: Elicitations;
}

/** A call that was answered with a task. */
export interface Opened {
  readonly task: Task;
  readonly result: ToolResult;
}

interface Watched {
  readonly asked: Elicitations;
  /** Ends a pause between two looks. */
  wake(): void;
  /** As the client got it. */
  result?: ToolResult | undefined;
  /** By the client: the tool need not have heard of it. */
  by: TaskEnd["by"];
  readonly settled: Deferred<Delivery>;
}

// The client asks for the result itself, in most cases, and what the server has to say to it comes with the answer.
const RESULT_LEFT_TO_CLIENT_MS = 2_000;
// A ledger that is slow must not keep a result from its client.
const MOST_HELD_MS = 5_000;
const MOST_KNOWN = 1_000;
const NOTE_ACTION = "nevertwice.task";
const NOTE_KEPT_MS = 30 * 86_400_000;
const RELATED = "io.modelcontextprotocol/related-task";

export class ProxiedTasks {
  readonly running = new RunningTasks();
  /** Null: the ids of tasks are not kept. */
  readonly #store: Store | null;
  readonly #watched = new Map<string, Watched>();
  readonly #made = new Map<string, MadeTask>();
  #isClosed = false;
  #close = () => {};
  readonly #closed = new Promise<never>((_, close) => {
    this.#close = () => close(new TaskGone("the proxy was closed while the task worked"));
  });

  constructor(store: Store | null) {
    this.#store = store;
    this.#closed.catch(() => {});
  }

  close(): void {
    this.#isClosed = true;
    this.#close();
  }

  /** Until the answer is there, or the task that it names has ended. `opened`: there is a task, and the client is to have it. */
  async follow(
    answered: Promise<ToolResult>,
    call: Omit<TaskOf, "task"> & {
      readonly of: AttemptOf;
      opened(opened: Opened): void;
      ended(end: TaskEnd): ToolResult;
    },
  ): Promise<ToolResult> {
    const { key } = call.of;
    this.running.begin(
      key,
      answered.then(taskIn, () => null),
    );
    try {
      const result = await answered;
      const created = taskIn(result);
      if (created === null) return result;
      withoutTimeout();
      await this.keep(call.of, created.task);
      call.opened({ ...created, result });
      return call.ended(await this.watch({ ...call, ...created }));
    } finally {
      this.running.end(key);
    }
  }

  async watch({ scope, task, ask, asked }: TaskOf): Promise<TaskEnd> {
    let woken = deferred<void>();
    const watched: Watched = { asked, by: "tool", settled: deferred(), wake: () => woken.resolve() };
    remember(this.#watched, scope + task.taskId, watched);
    const pause = async (ms: number) => {
      await Promise.race([woken.promise, sleep(ms)]);
      woken = deferred();
    };
    let isDone = false;
    const source: TaskSource = {
      getTask: async (taskId) => {
        if (this.#isClosed) return null;
        const { result, ...now } = (await ask("tasks/get", { taskId })) as unknown as Task & Pick<Watched, "result">;
        // The tasks extension of revision 2026-07-28 has no tasks/result.
        watched.result ??= result;
        isDone = now.status === "completed";
        return now;
      },
      getTaskResult: async (taskId) => {
        if (watched.result === undefined && isDone) await pause(RESULT_LEFT_TO_CLIENT_MS);
        return watched.result ?? ask("tasks/result", { taskId });
      },
    };
    const end = await Promise.race([pollTask(source, task, pause), this.#closed]);
    return { ...end, by: watched.by };
  }

  /** The ledger knows how it ended. */
  settled({ scope, task: { taskId } }: Pick<TaskOf, "scope" | "task">, delivery: Delivery): void {
    this.#watched.get(scope + taskId)?.settled.resolve(delivery);
  }

  /** A task whose call is over for the ledger. What it comes to settles the doubt, unless the user declined it. */
  async adopt(of: TaskOf, settle: (result: ToolResult) => Promise<void> | undefined): Promise<void> {
    if (this.#watched.has(of.scope + of.task.taskId)) return;
    const end = await this.watch(of);
    if (end.status === "completed" && of.asked.declined === null) await settle(end.result);
    this.settled(of, NO_DELIVERY);
  }

  /** The task of a call that is not settled; null: there is none that this caller may ask for. */
  async same(
    outcome: Outcome<unknown>,
    of: Omit<TaskOf, "task">,
    settle: (result: ToolResult, of: AttemptOf) => Promise<void>,
  ): Promise<CreatedTask | null> {
    const { key } = outcome;
    const source = { getTask: async (taskId: string) => (await of.ask("tasks/get", { taskId })) as unknown as Task };
    const here = await this.running.same(outcome, source);
    if (here !== null || this.running.over(key) !== undefined) return here;
    const kept = await this.#kept(key).catch(() => null);
    const task = kept === null ? null : await lookAtTask(source, kept.taskId);
    // Of one that came to nothing, the ledger says more.
    if (kept === null || !task || (isEnd(task.status) && task.status !== "completed")) return null;
    void this.adopt({ ...of, task }, (result) => settle(result, { key, fence: kept.fence })).catch(() => {});
    return { task };
  }

  /** Another proxy, or this one started again, may ask for it then. That of a later attempt stays. */
  async keep({ key, fence }: AttemptOf, { taskId }: Task): Promise<void> {
    const store = this.#store;
    if (store === null) return;
    const name = { key: noteKey(key), tenant: "", action: NOTE_ACTION, keepMs: NOTE_KEPT_MS };
    try {
      const [before = null] = await store.read([name.key]);
      const known = before?.record ?? null;
      if (fence < (keptIn(known, store)[0] ?? 0)) return;
      const record = writeNote(known, name, JSON.stringify([fence, taskId]), instantOf(store));
      await store.write([{ record, expected: before?.version ?? null }]);
    } catch {
      // Without it a restart leaves a doubt.
    }
  }

  async #kept(key: string): Promise<{ readonly fence: number; readonly taskId: string } | null> {
    if (this.#store === null) return null;
    const [note = null, of] = await this.#store.read([noteKey(key), key]);
    const [fence, taskId] = keptIn(note?.record ?? null, this.#store);
    if (fence === undefined || taskId === undefined) return null;
    return fence === of?.record.fence ? { fence, taskId } : null;
  }

  /** For a client that asked for a task, and gets an answer that is there already, or will be. */
  make(scope: string): MadeTask {
    const made = new MadeTask();
    remember(this.#made, scope + made.task.taskId, made);
    return made;
  }

  /** Null: the request is about no task that is known here. A promise: of the answer, since the task is the proxy's own. */
  about(message: RpcMessage, scope: string): TaskAnswer | Promise<OwnAnswer> | null {
    if (!isTaskRequest(message)) return null;
    const { method = "", params } = message;
    const id = scope + String(params?.taskId);
    const watched = this.#watched.get(id);
    if (watched === undefined) return this.#made.get(id)?.about(method) ?? null;
    if (method === "tasks/cancel") watched.by = "store";
    for (const answer of Object.values(params?.inputResponses ?? {})) watched.asked.heard(answer);
    return ({ result }) => heardOf(watched, method, result);
  }

  /** Of the call whose task a message of the server names, known here or not; undefined: it names none. */
  asker({ params }: RpcMessage, scope: string): Elicitations | undefined {
    const meta = params?._meta as { readonly [RELATED]?: { readonly taskId?: unknown } } | undefined;
    const related = meta?.[RELATED];
    return related && (this.#watched.get(scope + String(related.taskId))?.asked ?? new Elicitations());
  }
}

/** About one task: one that is known here, perhaps. */
export function isTaskRequest({ method = "", params }: RpcMessage): boolean {
  return method.startsWith("tasks/") && typeof params?.taskId === "string";
}

/** What a client has heard of is settled first. That a task is completed is half of it: the result is what it asks for next. */
async function heardOf(watched: Watched, method: string, result: RpcMessage["result"]): Promise<Delivery> {
  const isResult = method === "tasks/result";
  const given = (isResult ? result : result?.result) as ToolResult | undefined;
  const isEnded = isEnd(result?.status) && (result?.status !== "completed" || given !== undefined);
  if (!isResult && !isEnded) return NO_DELIVERY;
  watched.result ??= given;
  watched.wake();
  return (await Promise.race([watched.settled.promise, sleep(MOST_HELD_MS)])) ?? NO_DELIVERY;
}

/** A task of the proxy's own. */
class MadeTask {
  readonly #id = `nevertwice:${randomUUID()}`;
  readonly #at = new Date().toISOString();
  #status = "working";
  readonly #ended = deferred<{ readonly result: ToolResult; readonly delivery: Delivery }>();

  get task() {
    return { taskId: this.#id, status: this.#status, ttl: null, createdAt: this.#at, lastUpdatedAt: this.#at };
  }

  end(result: ToolResult, delivery: Delivery): void {
    this.#status = result.isError === true ? "failed" : "completed";
    // Until it is asked for.
    delivery.lost();
    const _meta = { ...(result._meta as object), [RELATED]: { taskId: this.#id } };
    this.#ended.resolve({ result: { ...result, _meta }, delivery });
  }

  async about(method: string): Promise<OwnAnswer> {
    if (method === "tasks/result") return this.#ended.promise;
    const answer =
      method === "tasks/get"
        ? { result: this.task }
        : { error: { code: INVALID_PARAMS, message: "the task repeats another one, and cannot be cancelled" } };
    return { ...answer, delivery: NO_DELIVERY };
  }
}

/** The tasks extension of revision 2026-07-28 has its fields in the result itself. */
export function taskIn(result: ToolResult): CreatedTask | null {
  const created = result?.resultType === "task" ? { task: result } : result;
  return isCreatedTask(created) && created.content === undefined ? created : null;
}

function keptIn(note: LedgerRecord | null, store: Store): [fence: number, taskId: string] | [] {
  return JSON.parse(readNote(note, instantOf(store)) ?? "[]");
}

function noteKey(key: string): string {
  return deriveKey({ tenant: "", action: NOTE_ACTION, version: 1, scope: null, parts: [key], secret: undefined });
}

/** The oldest are forgotten. */
function remember<T>(all: Map<string, T>, id: string, one: T): void {
  all.set(id, one);
  if (all.size > MOST_KNOWN) all.delete(all.keys().next().value as string);
}
