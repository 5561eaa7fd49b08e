/**
 * A job in code: a function that runs once per scheduled instant, on however many hosts the program runs. The instant is
 * the key, so two schedulers, a repeated hour and a tick that came late all mean the same run.
 */
import { type At, atMs } from "../core/at.ts";
import { type Duration, formatDuration } from "../core/duration.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { asContainer, DEFAULT_KEEP, type PolicyOptions, resolveKeep } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import { redact } from "../core/redact.ts";
import type { RetryOptions } from "../core/retry.ts";
import type { Store } from "../core/store.ts";
import type { Action } from "../engine/action.ts";
import { PACED, type PacedOptions } from "../engine/call.ts";
import type { Clock } from "../engine/clock.ts";
import type { AttemptContext, Logger } from "../engine/context.ts";
import type { ActionOptions } from "../engine/definition.ts";
import { DEFAULT_LIMITS, type Payloads } from "../engine/payloads.ts";
import { hasLeftExit, settleEnded } from "./command/ended.ts";
import { thisProcess } from "./command/process-group.ts";
import { jobAction, planAction, SLOT_KEY, type SlotInput, sameSlot } from "./job-action.ts";
import { type CatchUp, checkCatchUp, JobLoop } from "./job-loop.ts";
import { keepPlan, keptPlan, planKey, planVerdict } from "./kept-plan.ts";
import { KnownSlots } from "./known-slots.ts";
import { recentResults } from "./recent-results.ts";
import { type Seed, seed } from "./seed.ts";
import {
  type AttemptDraft,
  CLAIMED_BY_PROCESS,
  type DraftReader,
  failureVerdict,
  isHeld,
  noticeDeadRunner,
  stillRuns,
} from "./slot-attempt.ts";
import { slotKeep } from "./slot-keep.ts";
import { instantOfSlot, slotOfInstant, type TimetableOptions, timetable } from "./timetable.ts";

export interface PlanContext {
  readonly job: string;
  readonly slot: string;
  /** The scheduled instant. */
  readonly at: Date;
  /** The same draws for every run of this slot. */
  readonly seed: Seed;
  /** One field of the job's last results, the newest first: what not to repeat. */
  recent(count: number, field: string): Promise<unknown[]>;
}

export interface JobContext<P> extends AttemptContext {
  readonly job: string;
  readonly slot: string;
  readonly at: Date;
  readonly seed: Seed;
  /** What `plan` returned, the same for every run of this slot. */
  readonly plan: P;
  /** One field of the job's last results, the newest first. */
  recent(count: number, field: string): Promise<unknown[]>;
}

export interface JobOptions<R, P = undefined>
  extends TimetableOptions,
    Omit<PolicyOptions<never>, "doubt" | "wait" | "effect"> {
  /**
   * Left out: a run that threw, timed out or whose process died is run again, within `retry`. The effects inside are what
   * is guarded. "hold": it waits for a person. "retry": run again also where an earlier attempt was to be held.
   */
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration };
  /** Instants that passed while nobody looked: "last" (unless given) runs the last one, "none" none, { all: n } up to n. */
  readonly catchUp?: CatchUp;
  /**
   * Decides what the run will do, once per slot: recorded before the run begins, so a second run does the same. It must come
   * back from JSON as it was, and be no larger than 1 MiB; anything else is refused, and the slot is not run.
   */
  readonly plan?: (context: PlanContext) => P | Promise<P>;
  readonly run: (context: JobContext<P>) => R | Promise<R>;
}

export interface JobRun<R> {
  readonly slot: string;
  readonly at: Date;
  readonly outcome: Outcome<R>;
}

export interface Job<R> {
  readonly jobName: string;
  /** Runs what is due, now and from now on, until stop() or close(). */
  start(): void;
  /** Begins no further run, and waits for the one under way. */
  stop(): Promise<void>;
  /** Runs what is due now, and returns the outcome: for a scheduler of your own. */
  tick(): Promise<JobRun<R>[]>;
  /** Runs the slot of this scheduled instant, if nobody has. */
  runAt(at: At): Promise<Outcome<R>>;
  /** What the ledger says of that slot. */
  statusAt(at: At): Promise<Outcome<R> | Absent>;
  /** The next scheduled instant; null: there is none any more. */
  next(): Date | null;
  recent(count: number, field: string): Promise<unknown[]>;
}

/** What a job needs of nevertwice(). */
export interface JobServices {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly payloads: Payloads;
  readonly tenant: string;
  readonly secret: string | Uint8Array | undefined;
  warn(code: string, action: string, message: string, about: string): void;
  action<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
  /** Changes how long a record is kept; null: forever. */
  retain(key: string, keepMs: number | null): Promise<void>;
  /** Throws once close() was called. */
  requireOpen(): void;
  once<R>(
    name: string,
    parts: readonly unknown[],
    run: () => R | Promise<R>,
    options?: {
      keep?: Duration | "forever";
      lease?: Duration;
      timeout?: Duration;
      doubt?: "hold" | "retry";
      classify?: (error: unknown) => "refused" | undefined;
    },
  ): Promise<R>;
}

const OPTIONS = new Set("cron every tz catchUp plan run keep lease timeout doubt retry whenStoreDown".split(" "));
const MOST_RECENT = 1_000;
// Long enough for heartbeats, and short enough that a planner that was killed does not hold up the slot.
const PLAN_LEASE = "60s";
// Pauses that double from two seconds on, half an hour to an hour in all: a provider that is down for some minutes costs
// no slot, and a job that crashes every time is left to a person after twelve attempts.
const RETRY: RetryOptions = { attempts: 12, backoff: "2s", max: "1h" };

export function createJob<R, P>(
  name: string,
  options: JobOptions<R, P>,
  services: JobServices,
): Job<R> & { loop: JobLoop<R> } {
  const where = `job ${JSON.stringify(name)}`;
  check(options, where);
  const { cron, every, tz, catchUp, plan, run, ...policy } = options;
  const times = timetable(
    { ...(cron !== undefined && { cron }), ...(every !== undefined && { every }), ...(tz !== undefined && { tz }) },
    where,
  );
  const keep = slotKeep(policy.keep, times.longestGapMs(), where, catchUp);
  const recent = (count: number, field: string) => recentField(services, name, count, field);
  const { doubt, retry, ...lasting } = policy;
  const span = {
    ...(policy.lease !== undefined && { lease: policy.lease }),
    ...(policy.timeout !== undefined && { timeout: policy.timeout }),
  };
  const contained = doubt === undefined || doubt === "retry";
  const draftOf: DraftReader = (record) => services.payloads.load(record as LedgerRecord, "draft").value as never;
  const storedResult = (value: unknown, { tenant, key, fence }: LedgerRecord) =>
    services.payloads.store(value, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
  /** Slots whose function has not returned, though its attempt may be over. */
  const running = new Map<string, number>();
  const plans = new Map<string, P>();

  const probe = async ({ slot }: SlotInput, { key }: { readonly key: string }) => {
    if (running.has(slot)) return "unknown";
    const [stored] = await services.store.read([key]);
    if (!stored) return "not-done";
    const held = doubt === undefined && isHeld(stored.record, draftOf);
    if (held || stillRuns(stored.record, draftOf)) return "unknown";
    // A command of the same name. Asked after its processes: the shell leaves the exit code before it ends.
    return hasLeftExit(stored.record, { read: draftOf }) ? "unknown" : "not-done";
  };

  const action = services.action<SlotInput, R, AttemptDraft>(
    jobAction(name),
    asContainer({
      ...lasting,
      keep,
      ...SLOT_KEY,
      ...CLAIMED_BY_PROCESS,
      wait: 0,
      retry: { ...RETRY, ...retry },
      doubt: contained ? { probe, quietFor: 0 } : doubt,
      classify: (error: unknown) =>
        planVerdict(error) ?? (contained ? failureVerdict(error, services.store.now()) : undefined),
      prepare: async ({ slot }: SlotInput, { attempt: number }: AttemptContext) => {
        // Before the mark, so that a process that dies while it plans leaves nothing to hold. Where nothing is held the plan is
        // made after it: by then the ledger knows the runner, and its death is noticed.
        if (plan !== undefined && !contained) plans.set(`${number} ${slot}`, await planOf(slot, plan, number));
        const runner = thisProcess();
        return { ...(runner !== null && { runner }), ...(doubt === "hold" && { doubt }) };
      },
      run: async ({ slot }: SlotInput, context: AttemptContext) => {
        running.set(slot, (running.get(slot) ?? 0) + 1);
        try {
          return await run({
            ...context,
            job: name,
            slot,
            at: new Date(instantOfSlot(slot) as number),
            seed: seedOf(slot),
            plan: (plan === undefined ? undefined : await plannedFor(slot, plan, context.attempt)) as P,
            recent,
          });
        } finally {
          const others = (running.get(slot) as number) - 1;
          if (others === 0) running.delete(slot);
          else running.set(slot, others);
        }
      },
    }),
  );

  /** Made in `prepare` where a doubt is held; otherwise, and for an attempt that is resent, it is the slot's. */
  async function plannedFor(slot: string, plan: (context: PlanContext) => P | Promise<P>, attempt: number): Promise<P> {
    const made = `${attempt} ${slot}`;
    if (!plans.has(made)) return planOf(slot, plan, attempt);
    const planned = plans.get(made) as P;
    plans.delete(made);
    return planned;
  }

  /** An intent of its own: a confirmed record never changes, whoever runs the slot and however often. */
  async function planOf(slot: string, plan: (context: PlanContext) => P | Promise<P>, attempt: number): Promise<P> {
    const draw = async () =>
      keptPlan(
        await plan({ job: name, slot, at: new Date(instantOfSlot(slot) as number), seed: seedOf(slot), recent }),
        where,
      );
    const terms = asContainer({
      ...CLAIMED_BY_PROCESS,
      lease: PLAN_LEASE,
      ...span,
      keep: "forever",
      doubt: "retry",
      classify: planVerdict,
    } as const);
    // A planner that was killed has left nothing: its plan is made again.
    await noticeDeadRunner(services.store, planKey(services, { job: name, slot }), draftOf);
    const made = await services.once(planAction(name), [slot], draw, terms);
    // An earlier release gave it an end.
    if (attempt > 1) await keepPlan(services, { job: name, slot }, null);
    return made;
  }

  const seedOf = (slot: string) => seed(name, slot, times);
  const keyOf = (slot: string) =>
    deriveKey({
      tenant: services.tenant,
      action: jobAction(name),
      version: 1,
      scope: null,
      parts: [slot],
      secret: services.secret,
    });

  const attempt = async (at: number, paced?: "paced") => {
    const slot = slotOfInstant(at);
    await settleEnded(services.store, keyOf(slot), { read: draftOf, store: storedResult });
    await noticeDeadRunner(services.store, keyOf(slot), draftOf);
    const pace: PacedOptions = paced === undefined ? {} : { [PACED]: true };
    const outcome = sameSlot(await action.attempt({ slot, at }, pace));
    // The slot is done, whatever becomes of this: a plan that keeps no end is only kept longer.
    if (plan !== undefined && outcome.status === "done")
      await keepPlan(services, { job: name, slot }, keepMs).catch(() => {});
    return outcome;
  };
  // Slots from before the job was first seen are nobody's: a new job does not begin with the past.
  const since = () =>
    services.once(`job-since:${name}`, ["first seen"], () => services.store.now(), {
      keep: "forever",
      doubt: "retry",
    });
  const keepMs = resolveKeep(keep, where);
  const keepBefore = resolveKeep(policy.keep ?? DEFAULT_KEEP, where);
  const known = new KnownSlots({ ...services, job: name, keepMs, keepBefore, since });
  const kept = keepMs === null ? "forever" : formatDuration(keepMs);
  const loop = new JobLoop<R>({
    times,
    catchUp: catchUp ?? "last",
    settles: contained,
    now: () => services.store.now(),
    clock: services.clock,
    attempt: (at) => attempt(at, "paced"),
    since,
    knownFrom: (at) => known.from(at),
    onForgotten: (instants) =>
      services.warn("SLOTS_FORGOTTEN", jobAction(name), forgotten(instants), String(instants.at(-1))),
    onError: (error) => services.logger.error(`nevertwice: ${where}: ${redact(String(error))}`),
  });
  return {
    loop,
    jobName: name,
    start: () => {
      services.requireOpen();
      loop.start();
    },
    stop: () => loop.stop(),
    tick: async () => {
      services.requireOpen();
      return (await loop.tick()).map(({ at, outcome }) => ({ slot: slotOfInstant(at), at: new Date(at), outcome }));
    },
    runAt: (at) => runAt(scheduled(at, "runAt")),
    statusAt: (at) => {
      const instant = scheduled(at, "statusAt");
      return action.status({ slot: slotOfInstant(instant), at: instant });
    },
    next: () => {
      const next = times.next(services.store.now());
      return next === null ? null : new Date(next);
    },
    recent,
  };

  async function runAt(at: number): Promise<Outcome<R>> {
    services.requireOpen();
    const slot = slotOfInstant(at);
    if (at >= (await known.from(at)) || (await action.status({ slot, at })).status !== "absent") return attempt(at);
    throw configError(
      `${where}: ${slot} is older than what the ledger still knows (keep is ${kept}): if it is done, its record is gone, and it would run twice. Nothing was run. To be able to run old slots, give the job a longer keep, or keep: "forever"; that counts for the slots from then on. To run this one whatever happened before, use an action or a job of another name.`,
    );
  }

  function forgotten(instants: readonly number[]): string {
    const [first, last] = [instants[0], instants.at(-1)].map((at) => new Date(at as number).toISOString());
    return `${where}: ${instants.length === 1 ? `the slot ${first} was` : `${instants.length} slots from ${first} to ${last} were`} not caught up with: the ledger may have forgotten that they are done (keep is ${kept}). Give the job a longer keep, or "forever", to catch up further back.`;
  }

  function scheduled(at: At, method: string): number {
    const instant = atMs(at, (what) =>
      configError(
        `${where}: ${method}: ${what}. Pass the scheduled instant: a Date, epoch milliseconds, or an ISO date-time with Z or an offset.`,
      ),
    );
    const [last] = times.upTo(instant, 1);
    if (last === instant) return instant;
    throw configError(
      `${where}: ${new Date(instant).toISOString()} is not one of its scheduled instants${last === undefined ? "" : `; the one before it is ${new Date(last).toISOString()}`}. Pass the instant a run stands for, not the time of the call.`,
    );
  }
}

function check<R, P>(options: JobOptions<R, P>, where: string): void {
  if (typeof options !== "object" || options === null || typeof options.run !== "function")
    throw configError(
      `${where}: run is missing. Give it what is to be done: { cron: "0 6 * * *", run: async (ctx) => … }.`,
    );
  for (const option of Object.keys(options)) {
    if (!OPTIONS.has(option)) throw noSuchOption(where, option, OPTIONS);
  }
  if (options.plan !== undefined && typeof options.plan !== "function")
    throw configError(`${where}: plan must be a function.`);
  checkCatchUp(options.catchUp ?? "last", where);
}

async function recentField(services: JobServices, job: string, count: number, field: string): Promise<unknown[]> {
  if (!Number.isSafeInteger(count) || count < 1 || count > MOST_RECENT)
    throw configError(`recent: count is ${String(count)}; it takes a whole number from 1 to ${MOST_RECENT}.`);
  if (typeof field !== "string" || field === "")
    throw configError(
      `recent: field is ${field === undefined ? "missing" : String(field)}. Pass the name of a field of the results as second argument: recent(${count}, "slug") returns that field of the last ${count} results, the newest first.`,
    );
  services.requireOpen();
  const load = (record: LedgerRecord) => services.payloads.load(record, "result").value;
  const results = await recentResults(services.store, load, { job, tenant: services.tenant, count });
  return results.flatMap((result) => {
    const value = typeof result === "object" ? (result as Record<string, unknown>)[field] : undefined;
    return value === undefined ? [] : [value];
  });
}
