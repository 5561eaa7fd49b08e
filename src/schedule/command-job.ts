/**
 * A command as a job: one run per slot, whoever starts it and however often. The ledger knows the command's process
 * group before the command begins, so a run whose runner died is taken over only when nothing of it is left.
 */
import type { Duration } from "../core/duration.ts";
import { DOUBT_REASON, notSent } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import type { ProbeAnswer } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import { redact } from "../core/redact.ts";
import type { Store } from "../core/store.ts";
import type { Action } from "../engine/action.ts";
import type { AttemptContext } from "../engine/context.ts";
import type { ActionOptions } from "../engine/definition.ts";
import { setTimeout } from "../engine/real-timers.ts";
import { type CommandEnd, GatedChild } from "./gated-child.ts";
import { jobAction, SLOT_KEY, type SlotInput, sameSlot } from "./job-action.ts";
import { groupStanding, type ProcessGroup, signalGroup } from "./process-group.ts";
import { seed } from "./seed.ts";

/** What of nevertwice() a command job needs. */
export interface CommandJobLedger {
  readonly store: Store;
  action<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
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
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: (chunk: Buffer) => void;
  readonly stderr: (chunk: Buffer) => void;
  readonly monotonic: () => number;
  /** Calls back with each signal that is to reach the command; returns the way to stop listening. */
  readonly onSignal: (listen: (signal: NodeJS.Signals) => void) => () => void;
}

/** What the ledger keeps of a command that ended well. */
export interface CommandResult {
  readonly exitCode: 0;
  readonly durationMs: number;
  readonly lastLines: readonly string[];
}

// Kept in the ledger. Not the name of the class, which a minified bundle changes.
const COMMAND_FAILED = "CommandFailed";

export class CommandFailed extends Error {
  override readonly name = COMMAND_FAILED;
  readonly end: CommandEnd;
  readonly code: string;
  readonly [DOUBT_REASON]: string;

  constructor(end: CommandEnd) {
    const how = end.signal === null ? `exited with ${end.exitCode}` : `was ended by ${end.signal}`;
    const said = end.lastLines.length === 0 ? "" : `: ${end.lastLines.slice(-3).join(" | ")}`;
    super(`the command ${how} after ${end.durationMs} ms${said}`);
    this.end = end;
    this[DOUBT_REASON] = `the command ${how}, and --on-failure is hold`;
    this.code = end.signal ?? `EXIT_${end.exitCode}`;
  }
}

/** What is written down before the command begins: where it runs, and what its end is to mean. */
interface CommandDraft extends ProcessGroup {
  readonly failed: CommandJobOptions["failed"];
}

// After a timeout or a lost lease the command is asked to end, then made to.
const GRACE_MS = 5_000;

export interface CommandJobRun {
  /** Absent: it was not run, because it may be done and forgotten. */
  readonly outcome: Outcome<CommandResult> | Absent;
  /** What this call itself started; null: nothing. */
  readonly started: StartedCommand | null;
}

export interface StartedCommand {
  /** It was ended by its timeout. */
  timedOut: boolean;
  /** Null: its end was not seen. */
  exitCode: number | null;
}

export async function runCommandJob(ledger: CommandJobLedger, options: CommandJobOptions): Promise<CommandJobRun> {
  const { job, slot, stale, failed } = options;
  let started: StartedCommand | null = null;
  const children = new Map<number, GatedChild>();
  const probe = async (_: SlotInput, { key }: { key: string }) => takenOver(ledger.store, key, failed);
  const action = ledger.action<SlotInput, CommandResult, CommandDraft>(jobAction(job), {
    ...SLOT_KEY,
    ...(options.lease !== undefined && { lease: options.lease }),
    ...(options.timeout !== undefined && { timeout: options.timeout }),
    ...(options.keep !== undefined && { keep: options.keep }),
    wait: 0,
    // The next tick is the retry: a scheduler is at it already.
    retry: { attempts: 1 },
    doubt: stale === "hold" ? "hold" : { probe, quietFor: 0 },
    prepare: async (_, context) => {
      const child = await GatedChild.start({ ...options, env: environment(options, context) });
      children.set(context.attempt, child);
      return { ...child.group, failed };
    },
    run: (_, context) => {
      started = { timedOut: false, exitCode: null };
      return open(children.get(context.attempt) as GatedChild, context, options, started);
    },
    classify: (error) => (failed === "hold" && error instanceof CommandFailed ? "doubt" : undefined),
  });
  if (await options.mayBeForgotten?.()) {
    const found = await action.status({ slot });
    if (found.status === "absent") return { outcome: found, started: null };
  }
  let outcome: Outcome<CommandResult>;
  try {
    outcome = sameSlot(await action.attempt({ slot }));
  } finally {
    // Prepared, and then not let go: the gate ends without the command. Let go: its end is waited for.
    for (const child of children.values()) await child.abandon();
  }
  // Set by `run`, which the compiler does not see.
  const command = started as StartedCommand | null;
  // Asked to end, it ended well: the ledger may know by now that it is done.
  const late = outcome.status === "unknown" && command?.exitCode === 0 ? await lateSuccess(action, slot) : null;
  return { outcome: late ?? outcome, started: command };
}

const LATE_LOOKS = 40;
const LATE_PAUSE_MS = 25;

async function lateSuccess(
  action: Action<SlotInput, CommandResult>,
  slot: string,
): Promise<Outcome<CommandResult> | null> {
  for (let look = 0; look < LATE_LOOKS; look += 1) {
    const now = await action.status({ slot });
    if (now.status === "done") return { ...now, replayed: false };
    await new Promise((done) => setTimeout(done, LATE_PAUSE_MS));
  }
  return null;
}

async function open(
  child: GatedChild,
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
    if (exitCode === 0) return { exitCode, durationMs, lastLines };
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

/** For the command, whatever it is written in. */
function environment(options: CommandJobOptions, context: AttemptContext): Record<string, string | undefined> {
  return {
    ...options.env,
    NEVERTWICE_KEY: context.key,
    NEVERTWICE_JOB: options.job,
    NEVERTWICE_SLOT: options.slot,
    NEVERTWICE_ATTEMPT: String(context.attempt),
    NEVERTWICE_FENCE: String(context.fence),
    NEVERTWICE_SEED: seed(options.job, options.slot).hex,
  };
}

/**
 * Asked about an earlier attempt in doubt: may the slot be taken over? That no process is left says nothing about what the
 * command did. It settles the doubt of a runner that died, and of a command that was ended where a failure may be retried.
 * Where a failure is to be held it settles nothing more: a person has to look.
 */
async function takenOver(
  store: Store,
  key: string,
  failed: CommandJobOptions["failed"],
): Promise<ProbeAnswer<CommandResult>> {
  const [stored] = await store.read([key]);
  if (stored === undefined || stored === null) return "not-done";
  const { record } = stored;
  if (isHeld(record) || (failed === "hold" && !runnerDied(record))) return "unknown";
  const group = groupOf(record);
  // No command's group: the attempt was one of a job in code, of which no process tells anything.
  return group === null || groupStanding(group) === "alive" ? "unknown" : "not-done";
}

/** The runner saw the command's end, or ended it, and the policy of that attempt leaves the rest to a person. */
export function isHeld(record: LedgerRecord): boolean {
  return !runnerDied(record) && heldOnFailure(record);
}

/** Nobody reported the end of the attempt: its lease ran out. Otherwise its runner lived and wrote the doubt itself. */
function runnerDied({ history, attempt }: LedgerRecord): boolean {
  const doubted = history.findLast(({ to }) => to === "unknown");
  return doubted?.attempt === attempt && doubted.event === "lapse";
}

/** The policy of the attempt itself: the call that asks may have been given another one. */
function heldOnFailure({ draft, error }: LedgerRecord): boolean {
  if (error?.name === COMMAND_FAILED) return true;
  return (
    draft !== null && "json" in draft && (JSON.parse(draft.json) as Partial<CommandDraft> | null)?.failed === "hold"
  );
}

/** The process group that a job's record speaks of; null: none, or not readable. */
export function groupOf({ draft }: Pick<LedgerRecord, "draft">): ProcessGroup | null {
  if (draft === null || !("json" in draft)) return null;
  const group = JSON.parse(draft.json) as Partial<ProcessGroup> | null;
  return typeof group?.group === "number" && typeof group.started === "string" && typeof group.realm === "string"
    ? (group as ProcessGroup)
    : null;
}
