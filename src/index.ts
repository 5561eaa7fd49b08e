export type { At } from "./core/at.ts";
export { type DamagedRecord, damagedRecord, isDamagedRecord } from "./core/damaged-record.ts";
export type { Duration } from "./core/duration.ts";
export { type Effect, keepFor } from "./core/effect.ts";
export {
  type ErrorCode,
  isNevertwiceError,
  NevertwiceError,
  type NotSentOptions,
  notSent,
  refused,
  rejected,
} from "./core/errors.ts";
export { type AmountOptions, type AmountValue, amount } from "./core/key/amount.ts";
export type { KeyFields, KeyOption } from "./core/key/parts.ts";
export type { ProviderKeyFormat } from "./core/key/provider-key.ts";
export { email, type TextOptions, text } from "./core/key/text.ts";
export {
  type BillingOptions,
  billingPeriod,
  day,
  month,
  quarter,
  week,
  windowOf,
  year,
  type ZoneOptions,
} from "./core/key/windows.ts";
export type { LimitOptions } from "./core/limit.ts";
export type { Absent, Outcome } from "./core/outcome.ts";
export type {
  DoubtOption,
  PolicyOptions,
  ProbeAnswer,
  SettleOptions,
} from "./core/policy.ts";
export type { PreventedCause, PreventedEntry } from "./core/prevented.ts";
export type {
  Fingerprint,
  HistoryEntry,
  Instant,
  Lease,
  LedgerRecord,
  Payload,
  State,
  SteadyMark,
  StoredError,
  WorkTerms,
} from "./core/record.ts";
export type { QueuedRetryOptions, RetryOptions } from "./core/retry.ts";
export type { EncryptKey, EncryptKeys, EncryptOption, EncryptOptions } from "./core/seal.ts";
export type {
  ActionStats,
  Finding,
  GuardedPolicy,
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  Quarantined,
  StatsQuery,
  Store,
  Stored,
  StoreTraits,
  SweepQuery,
  TransactionalStore,
  TransactionView,
} from "./core/store.ts";
export { type Action, outcomeOf, type ResendOptions } from "./engine/action.ts";
export type { CallOptions } from "./engine/call.ts";
export type { Check, CheckContext } from "./engine/check-context.ts";
export { type AttemptContext, currentAttempt, type Logger } from "./engine/context.ts";
export type { DefineAction, Undeclared } from "./engine/define-action.ts";
export type { ActionOptions, Formerly, Probe, ProbeContext } from "./engine/definition.ts";
export type { EachOptions } from "./engine/each.ts";
export type { EachCounts, EachFailure, EachProgress, EachReport, EachTrouble } from "./engine/each-tally.ts";
export type { Enqueued, EnqueueOptions } from "./engine/enqueue.ts";
export type { EngineEvent, EventListener } from "./engine/events.ts";
export type { FindQuery, Found } from "./engine/find.ts";
export type { ForgetOptions, Forgotten } from "./engine/forget.ts";
export type { Prevented, PreventedQuery } from "./engine/list-prevented.ts";
export type { OnceMoreAnswer, OnceMoreAsk, OnceMoreDecision, OnceMoreRequest } from "./engine/once-more.ts";
export type { Resolution, Signature } from "./engine/operate.ts";
export type { ResolveFilter, ResolveReport } from "./engine/resolve-all.ts";
export type { RetryFilter, RetryReport } from "./engine/retry-all.ts";
export { type StandardSchema, type } from "./engine/standard-schema.ts";
export type { SweepReport } from "./engine/sweeper.ts";
export type { TenantChoice } from "./engine/tenancy.ts";
export { type Nevertwice, type NevertwiceOptions, nevertwice, type OnceOptions } from "./nevertwice.ts";
export type { QueueOptions, TakeOptions, Task, WorkQueue } from "./outbox/work-queue.ts";
export type { Worker, WorkerEvent, WorkerStatus } from "./outbox/worker.ts";
export type { WorkerOptions } from "./outbox/worker-options.ts";
export type { RunId, RunOptions } from "./runs/run.ts";
export type { Sequence, SequenceOptions, StepOf, SubjectStatus } from "./runs/sequence.ts";
export type { SequenceStep } from "./runs/sequence-list.ts";
export type { Run, StepOptions } from "./runs/steps.ts";
export type { Job, JobContext, JobOptions, JobRun, PlanContext } from "./schedule/job.ts";
