/// <reference lib="esnext.disposable" preserve="true" />
/** What `nevertwice()` takes, and what it returns. */
import type { Duration } from "./core/duration.ts";
import type { Absent, Outcome } from "./core/outcome.ts";
import type { PolicyOptions } from "./core/policy.ts";
import type { EncryptOption } from "./core/seal.ts";
import type { Store, TransactionalStore } from "./core/store.ts";
import type { CallOptions } from "./engine/call.ts";
import type { CheckContext } from "./engine/check-context.ts";
import type { AttemptContext, Logger } from "./engine/context.ts";
import type { DefineAction } from "./engine/define-action.ts";
import type { EventListener } from "./engine/events.ts";
import type { FindQuery, Found } from "./engine/find.ts";
import type { ForgetOptions, Forgotten } from "./engine/forget.ts";
import type { Prevented, PreventedQuery } from "./engine/list-prevented.ts";
import type { OnceMoreAnswer, OnceMoreAsk, OnceMoreDecision, OnceMoreRequest } from "./engine/once-more.ts";
import type { Resolution, Signature } from "./engine/operate.ts";
import type { ResolveFilter, ResolveReport } from "./engine/resolve-all.ts";
import type { RetryFilter, RetryReport } from "./engine/retry-all.ts";
import type { SweepReport } from "./engine/sweeper.ts";
import type { TenantChoice } from "./engine/tenancy.ts";
import type { QueueOptions, WorkQueue } from "./outbox/work-queue.ts";
import type { Worker } from "./outbox/worker.ts";
import type { WorkerOptions } from "./outbox/worker-options.ts";
import type { RunId, RunOptions } from "./runs/run.ts";
import type { Sequence, SequenceOptions } from "./runs/sequence.ts";
import type { SequenceStep } from "./runs/sequence-list.ts";
import type { Run } from "./runs/steps.ts";
import type { Job, JobOptions } from "./schedule/job.ts";

/** `Tx`: the type of the transactions that the store takes. */
export interface NevertwiceOptions<Tx = unknown> {
  /** A store, or where one is: "sqlite:app.db", "memory:". Default: $NEVERTWICE_STORE, else SQLite at .nevertwice/ledger.db. */
  readonly store?: string | Store | TransactionalStore<Tx>;
  /**
   * Part of every key; a call may name another. Everything else keeps to this tenant's records: workers, queues, sweeps,
   * retryAll, resolveAll, and what is looked up or settled by key.
   */
  readonly tenant?: string;
  /** With `tenant`: workers, queues, sweeps, retryAll, resolveAll and lookups by key serve all tenants; calls still carry `tenant`. */
  readonly tenants?: "all";
  /** Makes keys unguessable (HMAC). Changing it changes every key. */
  readonly secret?: string | Uint8Array;
  /**
   * Seals stored inputs, drafts and results (AES-256-GCM). A list rotates: the first seals, all open. Payloads that are
   * not sealed are refused, unless `{ keys, acceptPlain: true }` says so for a migration.
   */
  readonly encrypt?: EncryptOption;
  /**
   * Who acts: the name of this program or bot, kept on records and told with events; a call may name another. Not part of
   * the key: another agent with the same intent is a repeat. Default: $NEVERTWICE_AGENT, else none.
   */
  readonly agent?: string;
  readonly logger?: Logger;
  readonly onWarning?: (warning: { readonly code: string; readonly action: string; readonly message: string }) => void;
  /** How often silent holders are looked for in the background; false: only when sweep() is called. */
  readonly sweep?: Duration | false;
}

/** `Tx`: the type of the transactions that calls take, by the store. A string names a store, not a type: `unknown` then. */
export interface Nevertwice<Tx = unknown> {
  readonly store: Store;
  /** The tenant whose records alone it touches; undefined: everybody's. */
  readonly tenant: string | undefined;
  /** A named kind of side effect. Its input is declared once, in any option: `input`, or an annotated `key` or `run`. */
  readonly action: DefineAction<Tx>;
  /** Ad hoc: `parts` name the intent, `run` performs the effect. */
  once<R>(
    name: string,
    parts: readonly unknown[],
    run: (context: AttemptContext<Tx>) => R | Promise<R>,
    options?: OnceOptions<Tx>,
  ): Promise<R>;
  /** A function that runs once per scheduled instant, on however many hosts. start() it, or tick() it yourself. */
  job<R, P = undefined>(name: string, options: JobOptions<R, P>): Job<R>;
  /** Steps for one subject after another in time, each once, served by the worker. */
  sequence<I = undefined, R = unknown>(
    name: string,
    steps: readonly SequenceStep[],
    options: SequenceOptions<I, R>,
  ): Sequence<I, R>;
  /** Several steps that together are one piece of work: called again, it goes on where it stopped. */
  run<R>(name: string, id: RunId, body: (run: Run) => R | Promise<R>, options?: RunOptions): Promise<R>;
  status(target: { readonly key: string }): Promise<Outcome<unknown> | Absent>;
  resolve(target: { readonly key: string }, resolution: Resolution<unknown>): Promise<Outcome<unknown> | Absent>;
  /** The intents behind a provider's own id, as a bounce, a log line or a webhook names it. Reads every record of the filters. */
  find(query: FindQuery): Promise<readonly Found[]>;
  /**
   * Calls that were answered from the ledger instead of being run, by tenant, action and cause: those of 90 days, or since then.
   * What another process counted is seen once its next sweep, or its close(), has written it.
   */
  prevented(query?: PreventedQuery): Promise<Prevented>;
  /**
   * A model, or a program, asks for one more run of a tool's call that is done. Nothing runs until a person grants it. One request
   * is open for each record; a second one changes nothing.
   */
  requestOnceMore(target: { readonly key: string }, ask: OnceMoreAsk): Promise<OnceMoreAnswer>;
  /** The open requests, the oldest first. */
  onceMoreRequests(choice?: TenantChoice): Promise<readonly OnceMoreRequest[]>;
  /** The next identical call of the guarded tool runs, as its next version. Granted twice before that, it is one grant. */
  grantOnceMore(target: { readonly key: string }, signature: Signature): Promise<OnceMoreDecision>;
  denyOnceMore(target: { readonly key: string }, signature: Signature): Promise<OnceMoreDecision>;
  /** Brings a failed record back. */
  retry(target: { readonly key: string }, signature: Signature): Promise<Outcome<unknown> | Absent>;
  /** One decision about many doubts: those of an action, of a cause, or those that `where` picks. The oldest first. */
  resolveAll(filter: ResolveFilter, resolution: Omit<Resolution<never>, "result">): Promise<ResolveReport>;
  /**
   * Empties one record, for privacy or for a fresh start: its input, draft, result, errors and history are gone, and the next call
   * runs it. Who decided it, and why, is kept in a note for a year. Refused while an attempt is under way; for a doubt, unless
   * `evenInDoubt` says so. A run is forgotten with its steps.
   */
  forget(target: { readonly key: string }, options: ForgetOptions): Promise<Forgotten>;
  /** Brings back every failed record, or those that fit; `dryRun` only says which. */
  retryAll(filter: RetryFilter, signature: Signature): Promise<RetryReport>;
  /** Runs what is queued (action.enqueue). Stopped by close(), if not before. */
  worker(options?: WorkerOptions): Worker;
  /** A named queue that agents take tasks from, the longest due first, and hand tasks to each other by. */
  queue<I, R = unknown, Called = I>(name: string, options?: QueueOptions<I, Called>): WorkQueue<I, R, Called>;
  /** One pass of the sweeper, now: over this tenant's records, or those of all where no tenant was given. */
  sweep(options?: TenantChoice): Promise<SweepReport>;
  /** Everything that happens, for metrics and alerts. Returns the way to stop listening. */
  on(listener: EventListener): () => void;
  /**
   * Begins nothing more, waits for what runs, hands back what has not begun, tells the ledger what it does not know yet and
   * closes the store. While the store is down it tries again, for the lease of the attempts and up to 25 seconds; what could
   * not be written is warned about (FACTS_NOT_WRITTEN). Inside an attempt (a run, a prepare, a step, a probe) it cannot wait for that attempt: it returns at
   * once, and the store is closed when all attempts have ended.
   */
  close(): Promise<void>;
  /** `await using nt = nevertwice()`: the same as close(). */
  [Symbol.asyncDispose](): Promise<void>;
}

export type OnceOptions<Tx = unknown> = Omit<PolicyOptions<never>, "doubt"> & {
  /** The provider's own id in the result, for find({ providerId }). */
  readonly resultId?: (result: never) => string | undefined;
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration };
  /** Runs before the claim, where this call would claim: what it throws was surely not sent, and leaves no record. */
  readonly check?: (context: CheckContext) => unknown;
  /** The effect is a row under a unique key: when the function throws its violation, the result that is there. */
  readonly exists?: (error: unknown) => unknown;
} & CallOptions<Tx>;
