/**
 * A job in code: a function that runs once per scheduled instant, on however many hosts the program runs. The instant is
 * the key, so two schedulers, a repeated hour and a tick that came late all mean the same run.
 */
import { type At, atMs } from "../core/at.ts";
import { type Duration, formatDuration } from "../core/duration.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { DEFAULT_KEEP, type PolicyOptions, resolveKeep } from "../core/policy.ts";
import { redact } from "../core/redact.ts";
import type { Store } from "../core/store.ts";
import type { Action } from "../engine/action.ts";
import type { Clock } from "../engine/clock.ts";
import type { AttemptContext, Logger } from "../engine/context.ts";
import type { ActionOptions } from "../engine/definition.ts";
import type { Payloads } from "../engine/payloads.ts";
import { jobAction, planAction, SLOT_KEY, type SlotInput, sameSlot } from "./job-action.ts";
import { type CatchUp, checkCatchUp, JobLoop } from "./job-loop.ts";
import { keepPlan, keptPlan, planVerdict } from "./kept-plan.ts";
import { KnownSlots } from "./known-slots.ts";
import { type Seed, seed } from "./seed.ts";
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
}

export interface JobOptions<R, P = undefined>
  extends TimetableOptions,
    Omit<PolicyOptions<never>, "doubt" | "wait" | "effect"> {
  /** hold: a run that may have happened waits for a person. retry: it is run again. */
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
  /** Runs what is due now, and returns what became of it: for a scheduler of your own. */
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
  const recent = (count: number, field: string) => recentResults(services, name, count, field);
  const span = {
    ...(policy.lease !== undefined && { lease: policy.lease }),
    ...(policy.timeout !== undefined && { timeout: policy.timeout }),
  };

  const action = services.action<SlotInput, R, { plan: P }>(jobAction(name), {
    ...policy,
    keep,
    ...SLOT_KEY,
    wait: 0,
    ...(plan !== undefined && {
      prepare: async ({ slot }, { attempt: number }) => ({ plan: await planOf(slot, plan, number) }),
      classify: planVerdict,
    }),
    run: async ({ slot }, context, draft) =>
      run({
        ...context,
        job: name,
        slot,
        at: new Date(instantOfSlot(slot) as number),
        seed: seed(name, slot),
        // The draft of an attempt by `nevertwice run` has no plan.
        plan: (plan === undefined || (draft !== undefined && "plan" in draft)
          ? draft?.plan
          : await planOf(slot, plan, context.attempt)) as P,
      }),
  });

  /** An intent of its own: a confirmed record never changes, whoever runs the slot and however often. */
  async function planOf(slot: string, plan: (context: PlanContext) => P | Promise<P>, attempt: number): Promise<P> {
    const draw = async () =>
      keptPlan(
        await plan({ job: name, slot, at: new Date(instantOfSlot(slot) as number), seed: seed(name, slot), recent }),
        where,
      );
    const terms = { ...span, keep: "forever", doubt: "retry", classify: planVerdict } as const;
    const made = await services.once(planAction(name), [slot], draw, terms);
    // An earlier release gave it an end.
    if (attempt > 1) await keepPlan(services, { job: name, slot }, null);
    return made;
  }

  const attempt = async (at: number) => {
    const slot = slotOfInstant(at);
    const outcome = sameSlot(await action.attempt({ slot, at }));
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
    attempts: policy.retry?.attempts ?? 5,
    now: () => services.store.now(),
    clock: services.clock,
    attempt,
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

async function recentResults(services: JobServices, name: string, count: number, field: string): Promise<unknown[]> {
  if (!Number.isSafeInteger(count) || count < 1 || count > MOST_RECENT)
    throw configError(`recent: count is ${String(count)}; it takes a whole number from 1 to ${MOST_RECENT}.`);
  if (typeof field !== "string" || field === "")
    throw configError(
      `recent: field is ${field === undefined ? "missing" : String(field)}. Pass the name of a field of the results as second argument: recent(${count}, "slug") returns that field of the last ${count} results, the newest first.`,
    );
  services.requireOpen();
  const query = { action: jobAction(name), states: ["confirmed"] as const, limit: count, tenant: services.tenant };
  const { items } = await services.store.list(query);
  return items.flatMap(({ record }) => {
    const result = services.payloads.load(record, "result").value as Record<string, unknown> | null | undefined;
    const value = typeof result === "object" && result !== null ? result[field] : undefined;
    return value === undefined ? [] : [value];
  });
}
