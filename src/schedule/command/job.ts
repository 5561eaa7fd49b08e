/**
 * A command as a job: one run per slot, whoever starts it and however often. The ledger knows the command's process
 * group before the command begins, so a run whose runner died is taken over only when nothing of it is left.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Duration } from "../../core/duration.ts";
import { isNevertwiceError, isStoreUnavailable, messageOf, notSent } from "../../core/errors.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";
import { asContainer } from "../../core/policy.ts";
import { redact } from "../../core/redact.ts";
import { instantOf, type Store } from "../../core/store.ts";
import { transition } from "../../core/transition.ts";
import type { Action } from "../../engine/action.ts";
import type { AttemptContext } from "../../engine/context.ts";
import type { DefineAction } from "../../engine/define-action.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import { jobAction, SLOT_KEY, type SlotInput, sameSlot } from "../job-action.ts";
import { keepPlan, planKey } from "../kept-plan.ts";
import { seed } from "../seed.ts";
import { CLAIMED_BY_PROCESS, type CommandDraft, noticeDeadRunner } from "../slot-attempt.ts";
import { slotNumber } from "../slot-number.ts";
import type { Timetable } from "../timetable.ts";
import { type EndedCommand, settleEnded } from "./ended.ts";
import { type ExitFile, type ExitFolder, makeExitFile, removeExitFile, sweepExitFiles } from "./exit-file.ts";
import { type CommandEnd, CommandFailed, CommandLost } from "./failed.ts";
import { GatedChild } from "./gated-child.ts";
import { makePlan, PlanFailed, type PlanLedger, planVariables } from "./plan.ts";
import { signalGroup, thisProcess } from "./process-group.ts";
import { recentVariable } from "./recent-variable.ts";
import { ResultFile } from "./result-file.ts";
import { mayTakeOver } from "./take-over.ts";

/** What of nevertwice() a command job needs. */
export interface CommandJobLedger extends PlanLedger {
  readonly store: Store;
  readonly action: DefineAction<unknown>;
}

export interface CommandJobOptions {
  readonly job: string;
  readonly slot: string;
  readonly command: readonly string[];
  readonly lease?: Duration;
  readonly timeout?: Duration;
  readonly keep?: Duration | "forever";
  /** The slot's record, if it is done, may have expired: without a record it is not run. Asked before the slot is. */
  readonly mayBeForgotten?: () => Promise<boolean>;
  /** A run whose runner fell silent and of which nothing is left. */
  readonly stale: "take-over" | "hold";
  /** The command ended with another code than 0. */
  readonly failed: "retry" | "hold";
  /** Stated explicitly: whatever ends without success waits for a person, also when a later call says otherwise. */
  readonly hold?: boolean;
  readonly tenant?: string;
  /** A shell command that prints the slot's plan as JSON: run once for the slot. */
  readonly plan?: string;
  /** How many of the last results the command is given. */
  readonly recent?: number;
  /** Where the command writes its own result as JSON; a private file unless given. */
  readonly resultFile?: string;
  /** The schedule that the slot is an instant of. */
  readonly times?: Timetable;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: (chunk: Buffer) => void;
  readonly stderr: (chunk: Buffer) => void;
  readonly monotonic: () => number;
  /** Calls back with each signal that is to reach the command; returns the way to stop listening. */
  readonly onSignal: (listen: (signal: NodeJS.Signals) => void) => () => void;
  /** Where the exit code of a command is kept. Absent: nowhere, because the ledger itself is not kept. */
  readonly exits?: ExitFolder;
  /** No such file could be made: should the runner be killed, nobody will know how the command ended. */
  readonly onNoExitFile?: (why: string) => void;
  /** The slot is taken over from a place whose processes cannot be looked for: its command may still run. */
  readonly onTakeOver?: () => void;
  /** Writes what the ledger could not be told when the command ended, for a bounded time. False: it still does not know. */
  readonly writeEnd: () => Promise<boolean>;
}

/** What the ledger keeps of a command that ended well. */
export interface CommandResult {
  readonly exitCode: 0;
  readonly durationMs: number;
  readonly lastLines: readonly string[];
  /** What the command wrote as its own result. */
  readonly result?: unknown;
}

export const DEFAULT_RECENT = 10;
// After a timeout or a lost lease the command is asked to end, then made to.
const GRACE_MS = 5_000;

export interface CommandJobRun {
  /** Absent: it was not run, because it may be done and forgotten. */
  readonly outcome: Outcome<CommandResult> | Absent;
  /** What this call found to have ended, though its runner did not report it; null: nothing. */
  readonly found: EndedCommand | null;
  /** What this call itself started; null: nothing. */
  readonly started: StartedCommand | null;
  /** False: the command ran, and its end could not be written to the ledger. */
  readonly recorded: boolean;
  /** Its exit code is in a file, where the next call of this host finds it. */
  readonly kept: boolean;
}

export interface StartedCommand {
  /** It was ended by its timeout. */
  timedOut: boolean;
  /** The shell that waited for it was killed, and it went on without. */
  lost: boolean;
  /** Null: its end was not seen. */
  exitCode: number | null;
  /** What is wrong with its own result, though it is done; null: nothing. */
  note: string | null;
}

export async function runCommandJob(ledger: CommandJobLedger, options: CommandJobOptions): Promise<CommandJobRun> {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-run-"));
  try {
    return await runWith(ledger, options, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** `folder`: for this call alone. */
async function runWith(ledger: CommandJobLedger, options: CommandJobOptions, folder: string): Promise<CommandJobRun> {
  const { job, slot, stale, failed } = options;
  let started: StartedCommand | null = null;
  const children = new Map<number, Gated>();
  const planned: Record<string, string> = {};
  const hasPlan = () => "NEVERTWICE_PLAN_FILE" in planned;
  const makePlanOnce = (key: string) =>
    planInto(planned, ledger, { ...options, plan: options.plan as string }, { folder, key });
  const probe = async (_: SlotInput, { key }: { key: string }) => mayTakeOver(ledger.store, key, options);
  const action = ledger.action<SlotInput, CommandResult, CommandDraft>(
    jobAction(job),
    asContainer({
      ...SLOT_KEY,
      ...CLAIMED_BY_PROCESS,
      ...(options.lease !== undefined && { lease: options.lease }),
      ...(options.timeout !== undefined && { timeout: options.timeout }),
      ...(options.keep !== undefined && { keep: options.keep }),
      wait: 0,
      // The next tick is the retry: a scheduler is at it already.
      retry: { attempts: 1 },
      doubt: stale === "hold" ? ("hold" as const) : { probe, quietFor: 0 },
      prepare: async (_: SlotInput, context: AttemptContext) => {
        // Under way when it was looked at, and failed since.
        const missing = options.plan === undefined || hasPlan() ? null : await makePlanOnce(context.key);
        if (missing !== null) throw missing.status === "failed" ? missing.error : new PlanFailed("it is being made");
        const exit = exitFileFor(context, options);
        const results = new ResultFile(
          resolve(options.cwd, options.resultFile ?? exit?.resultPath ?? join(folder, "result.json")),
        );
        const env = {
          ...(await environment(ledger.store, options)),
          ...planned,
          NEVERTWICE_KEY: context.key,
          NEVERTWICE_ATTEMPT: String(context.attempt),
          NEVERTWICE_FENCE: String(context.fence),
          NEVERTWICE_RESULT_FILE: results.path,
        };
        results.clear();
        const child = await GatedChild.start({ ...options, env, exitFile: exit?.path ?? null, outlives: true });
        children.set(context.attempt, { child, results, exit });
        const runner = thisProcess();
        return {
          ...child.group,
          failed,
          ...(stale === "hold" && { stale }),
          ...(runner !== null && { runner }),
          ...(exit !== null && { exit: exit.path, ...(options.resultFile !== undefined && { result: results.path }) }),
          ...(options.hold && { doubt: "hold" as const }),
        };
      },
      run: (_: SlotInput, context: AttemptContext) => {
        started = { timedOut: false, lost: false, exitCode: null, note: null };
        return open(children.get(context.attempt) as Gated, context, options, started);
      },
      classify: (error: unknown) =>
        error instanceof CommandLost || (failed === "hold" && error instanceof CommandFailed) ? "doubt" : undefined,
    }),
  );
  const forgotten = await options.mayBeForgotten?.();
  let before = await action.status({ slot });
  if (forgotten && before.status === "absent")
    return { outcome: before, found: null, started: null, recorded: true, kept: false };
  if (options.exits !== undefined) await sweepExitFiles(ledger.store, options.exits).catch(() => {});
  const settle = () => settleEnded(ledger.store, before.key, { folder: options.exits ?? null });
  let found = await settle();
  if (found?.as === "not-begun") before = await action.status({ slot });
  if (found?.as === "failed")
    return { outcome: failedWith(before.key, found), found, started: null, recorded: true, kept: false };
  if (await noticeDeadRunner(ledger.store, before.key)) before = await action.status({ slot });
  if (options.plan !== undefined && before.status !== "done" && before.status !== "in_flight") {
    const missing = await makePlanOnce(before.key);
    if (missing !== null) return { outcome: missing, found, started: null, recorded: true, kept: false };
  }
  const attempt = async (): Promise<Outcome<CommandResult>> => {
    try {
      return sameSlot(await action.attempt({ slot }));
    } catch (error) {
      if (started === null || !isStoreUnavailable(error)) throw error;
      const since = ledger.store.now();
      return { status: "unknown", key: before.key, since, attempt: 1, why: LEDGER_AWAY };
    } finally {
      // Prepared, and then not let go: the gate ends without the command. Let go: its end is waited for.
      for (const { child } of children.values()) await child.abandon();
    }
  };
  let outcome = await attempt();
  if (started === null && outcome.status === "unknown" && found === null) {
    // It ended after it was looked for first.
    found = await settle();
    const now = found === null || found.as === "not-begun" ? null : await action.status({ slot });
    if (found?.as === "not-begun") outcome = await attempt();
    else if (found?.as === "failed") outcome = failedWith(before.key, found);
    else if (now !== null && now.status !== "absent") outcome = sameSlot(now);
  }
  // Set by `run`, which the compiler does not see.
  const command = started as StartedCommand | null;
  const recorded = await options.writeEnd();
  // Asked to end, it ended well: the ledger may know by now that it is done.
  const late =
    recorded && outcome.status === "unknown" && command?.exitCode === 0 ? await lateSuccess(action, slot) : null;
  // The slot is done, whatever becomes of this: a plan that keeps no end is only kept longer.
  if (recorded && options.plan !== undefined && (late ?? outcome).status === "done")
    await endPlan(ledger.store, options, before.key).catch(() => {});
  const exits = [...children.values()].flatMap(({ exit }) => (exit === null ? [] : [exit.path]));
  // What the ledger does not know is left for the next call.
  if (recorded) for (const path of exits) removeExitFile(path);
  return { outcome: late ?? outcome, found, started: command, recorded, kept: !recorded && exits.length > 0 };
}

function failedWith(key: string, { error }: EndedCommand): Outcome<never> {
  return { status: "failed", key, error, final: false };
}

/** A command at its gate, and the files that are its own. */
interface Gated {
  readonly child: GatedChild;
  readonly results: ResultFile;
  readonly exit: ExitFile | null;
}

const TOKEN_BYTES = 8;

/** Null: there is none, and the command is run all the same. */
function exitFileFor(context: AttemptContext, { exits, onNoExitFile }: CommandJobOptions): ExitFile | null {
  if (exits === undefined) return null;
  try {
    return makeExitFile(exits, context, randomBytes(TOKEN_BYTES).toString("hex"));
  } catch (error) {
    onNoExitFile?.(messageOf(error));
    return null;
  }
}

/** Null: the plan is there. Otherwise what stands in its way, and the command is not run. */
async function planInto(
  variables: Record<string, string>,
  ledger: CommandJobLedger,
  options: CommandJobOptions & { readonly plan: string },
  { folder, key }: { readonly folder: string; readonly key: string },
): Promise<Outcome<CommandResult> | null> {
  try {
    const { timeout, job, slot, tenant = "", ...rest } = options;
    // A planner that was killed has left nothing: its plan is made again.
    await noticeDeadRunner(ledger.store, planKey({ tenant, secret: undefined }, { job, slot }));
    const env = await environment(ledger.store, options);
    const plan = await makePlan(ledger, {
      ...rest,
      job,
      slot,
      env,
      ...(timeout !== undefined && { timeout: String(timeout) }),
    });
    const file = join(folder, "plan.json");
    writeFileSync(file, JSON.stringify(plan ?? null));
    Object.assign(variables, planVariables(plan, file));
    return null;
  } catch (error) {
    if (error instanceof PlanFailed) return { status: "failed", key, error, final: false };
    const outcome = isNevertwiceError(error) ? (error.outcome as Outcome<never> | undefined) : undefined;
    if (outcome?.status !== "in_flight") throw error;
    return { ...outcome, key };
  }
}

/** From now on the plan is kept for as long as its slot. */
async function endPlan(store: Store, { job, slot, tenant }: CommandJobOptions, slotKey: string): Promise<void> {
  const [done] = await store.read([slotKey]);
  if (!done) return;
  const retain = async (key: string, keepMs: number | null) => {
    const [stored] = await store.read([key]);
    const change = transition(stored?.record ?? null, { type: "retain", keepMs }, instantOf(store));
    if (stored && change.ok) await store.write([{ record: change.record, expected: stored.version }]);
  };
  await keepPlan({ store, tenant: tenant ?? "", secret: undefined, retain }, { job, slot }, done.record.keepMs);
}

const LEDGER_AWAY = "the ledger did not answer when the command ended";
const LATE_LOOKS = 40;
const LATE_PAUSE_MS = 25;

async function lateSuccess(
  action: Action<SlotInput, CommandResult>,
  slot: string,
): Promise<Outcome<CommandResult> | null> {
  for (let look = 0; look < LATE_LOOKS; look += 1) {
    const now = await action.status({ slot }).catch(() => null);
    if (now === null) return null;
    if (now.status === "done") return { ...now, replayed: false };
    await new Promise((done) => setTimeout(done, LATE_PAUSE_MS));
  }
  return null;
}

async function open(
  { child, results }: Gated,
  context: AttemptContext,
  options: CommandJobOptions,
  started: StartedCommand,
): Promise<CommandResult> {
  const stopListening = options.onSignal((signal) => child.signal(signal));
  const stop = () => {
    started.timedOut = (context.signal.reason as { name?: unknown } | undefined)?.name === "TimeoutError";
    child.signal("SIGTERM");
    setTimeout(() => child.signal("SIGKILL"), GRACE_MS).unref();
  };
  context.signal.addEventListener("abort", stop, { once: true });
  try {
    const end = withoutSecrets(await child.run());
    const { exitCode, durationMs, lastLines } = end;
    started.exitCode = exitCode;
    if (exitCode === 0) return { exitCode, durationMs, lastLines, ...ownResult({ ...options, results }, started) };
    started.lost = end.lost === true;
    if (started.lost) throw new CommandLost();
    // What a failed command left running would meet the next attempt.
    signalGroup(child.group.group, "SIGTERM");
    const failure = new CommandFailed(end);
    throw options.failed === "hold" ? failure : notSent(failure);
  } finally {
    context.signal.removeEventListener("abort", stop);
    stopListening();
  }
}

/** The last lines are stored in the ledger: what the command printed for its own log is not what people may read there. */
function withoutSecrets(end: CommandEnd): CommandEnd {
  return { ...end, lastLines: end.lastLines.map(redact) };
}

function ownResult(
  { results, resultFile }: { readonly results: ResultFile; readonly resultFile?: string },
  started: StartedCommand,
): { result?: unknown } {
  const own = results.read();
  if (own.as === "result") return { result: own.result };
  const where = resultFile === undefined ? "NEVERTWICE_RESULT_FILE" : `--result-file ${resultFile}`;
  if (own.as === "unusable") started.note = `its result was not kept (${where}): ${own.why}`;
  else if (resultFile !== undefined) started.note = `it wrote no result to ${where}`;
  return {};
}

/** For the command, whatever it is written in, and for the command that makes its plan. */
async function environment(store: Store, options: CommandJobOptions): Promise<Record<string, string | undefined>> {
  const { job, slot, tenant = "", recent = DEFAULT_RECENT, times } = options;
  const number = slotNumber(slot, times ?? "any");
  return {
    ...options.env,
    NEVERTWICE_JOB: job,
    NEVERTWICE_SLOT: slot,
    ...(number !== null && { NEVERTWICE_SLOT_NUMBER: String(number) }),
    NEVERTWICE_SEED: seed(job, slot).hex,
    NEVERTWICE_RECENT: await recentVariable(store, { job, tenant, count: recent }),
  };
}
