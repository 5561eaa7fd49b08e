/** What `nevertwice run` says about a run, and its exit code: the outcome, and what really happens next. */
import { constants } from "node:os";
import { formatDuration } from "../core/duration.ts";
import { messageOf } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { instantOf, type Store } from "../core/store.ts";
import { CommandFailed } from "../schedule/command/failed.ts";
import type { CommandJobRun, CommandResult } from "../schedule/command/job.ts";
import { PlanFailed } from "../schedule/command/plan.ts";
import { groupStanding } from "../schedule/command/process-group.ts";
import { groupOf, isHeld, runnerDied } from "../schedule/slot-attempt.ts";
import type { Context } from "./command.ts";
import { afterDeadRunner } from "./ledger/dead-runner.ts";
import { EXIT, exitOfStatus } from "./term/exit.ts";
import { moment, shortKey } from "./term/format.ts";
import { oneLine } from "./term/text.ts";

interface Asked extends Omit<CommandJobRun, "outcome"> {
  readonly job: string;
  readonly slot: string;
  readonly onSkip: number;
  readonly stale: "take-over" | "hold";
  readonly failed: "retry" | "hold";
  readonly timeoutMs: number;
}

interface Verdict {
  readonly ran: boolean;
  readonly code: number;
  readonly words: string;
  /** Nothing went wrong: worth a line to a person only, because a crontab mails whatever is printed. */
  readonly quiet: boolean;
}

export async function report(
  context: Context,
  asked: Asked,
  outcome: Outcome<CommandResult> | Absent,
  store: Store,
): Promise<number> {
  const { job, slot } = asked;
  const verdict = await verdictOn(context, asked, outcome, store);
  const { ran, code, words, quiet } = asked.recorded ? verdict : unrecorded(verdict, asked);
  const lost = asked.recorded ? {} : { recorded: false };
  if (context.args.on("json"))
    context.json({ job, slot, ran, exitCode: code, words, ...lost, outcome: plain(outcome) });
  else if (!quiet || context.io.stderr.isTTY || context.args.on("verbose"))
    context.note(`${oneLine(job)} ${oneLine(slot)}: ${words}`);
  return code;
}

/** Never a silent 0: for the ledger the slot is still under way, and whoever comes after its lease finds no end of it. */
function unrecorded({ code, words }: Verdict, { failed, stale, kept }: Asked): Verdict {
  const next = kept
    ? "the exit code is kept in a file, and the next call for this slot on this host records it without running the command again"
    : failed === "hold" || stale === "hold"
      ? "when its lease is over, it is in doubt until a person settles it"
      : "when its lease is over, the next call for this slot runs it again. If it must not run twice, settle it before: nevertwice resolve";
  return {
    ran: true,
    code: code === EXIT.ok ? IN_DOUBT : code,
    words: `${words} But the ledger did not answer, and this end is not recorded: ${next}.`,
    quiet: false,
  };
}

async function verdictOn(
  context: Context,
  asked: Asked,
  outcome: Outcome<CommandResult> | Absent,
  store: Store,
): Promise<Verdict> {
  const now = store.now();
  const { onSkip, started, found } = asked;
  const skipped = (words: string): Verdict => ({ ran: false, code: onSkip, words: `${words}; skipped.`, quiet: true });
  switch (outcome.status) {
    case "done":
      if (found?.as === "done")
        return {
          ran: false,
          code: onSkip,
          words: `the command had exited with 0, and its runner ended without reporting it: recorded as done${found.note === null ? "" : `, but ${found.note}`}; skipped.`,
          quiet: false,
        };
      if (outcome.replayed) return skipped(`already done ${moment(outcome.at, now)}`);
      if (started !== null && started.note !== null)
        return {
          ran: true,
          code: EXIT.ok,
          words: `done in ${outcome.result.durationMs} ms, but ${started.note}.`,
          quiet: false,
        };
      return { ran: true, code: EXIT.ok, words: `done in ${outcome.result.durationMs} ms.`, quiet: true };
    case "in_flight":
      return skipped((await deadRunner(store, outcome.key)) ?? `running since ${moment(outcome.since, now)}`);
    case "absent":
      return {
        ran: false,
        code: onSkip,
        words: `not run: it is older than what the ledger still knows of this job, so it may be done and its record expired. The next slot is run at its time. To run this one in any case, name it: replace --cron by --slot '${asked.slot}'.`,
        quiet: false,
      };
    case "failed":
      return found?.error ? foundFailed(found.error) : failure(context, outcome);
    case "unknown": {
      const ended = endOfStarted(asked, outcome.why);
      const held = asked.failed === "hold" ? "--on-failure" : asked.stale === "hold" ? "--on-stale" : null;
      const group = await survivor(store, outcome.key);
      if (ended !== null && held === null)
        return { ran: true, code: IN_DOUBT, words: endedWords(ended, group), quiet: false };
      if (started === null && group !== null)
        return skipped(`its runner died, and the command still runs (process group ${group})`);
      const why = started?.timedOut ? `${ended}, and ${held} is hold` : oneLine(outcome.why);
      const look = context.suggest(`show ${shortKey(outcome.key)}`);
      const words = `in doubt: ${sentence(why)} Look, and settle it: ${look}`;
      return { ran: started !== null, code: IN_DOUBT, words, quiet: false };
    }
    default:
      return {
        ran: false,
        code: exitOfStatus(outcome.status),
        words: `${outcome.status}; nothing was run.`,
        quiet: false,
      };
  }
}

/** How this call's own command was ended; null: it was not, or it is not known. */
function endOfStarted({ started, timeoutMs }: Asked, why: string): string | null {
  if (started === null) return null;
  if (started.timedOut) return `the command was ended after ${formatDuration(timeoutMs)} (its timeout)`;
  return started.lost ? oneLine(why) : `the command was ended: ${oneLine(why)}`;
}

const IN_DOUBT = exitOfStatus("unknown");

function endedWords(ended: string, group: number | null): string {
  return group === null
    ? `${ended}. The next call for this slot runs it again.`
    : `${ended}, and something that it started still runs (process group ${group}). The next call for this slot runs it again once that has ended.`;
}

function failure(context: Context, outcome: Extract<Outcome<unknown>, { status: "failed" }>): Verdict {
  const { error, key } = outcome;
  if (error instanceof PlanFailed) {
    const words = `not run, because it has no plan: ${sentence(error.message)} The next call for this slot makes it again.`;
    return { ran: false, code: exitOfStatus("failed"), words, quiet: false };
  }
  if (!(error instanceof CommandFailed)) {
    const next = outcome.final
      ? `To run it again: ${context.suggest(`retry ${shortKey(key)} --reason '…'`)}`
      : "The next call for this slot runs it again.";
    const words = `${outcome.final ? "given up" : "failed"}: ${sentence(messageOf(error))} ${next}`;
    return { ran: false, code: exitOfStatus("failed"), words, quiet: false };
  }
  const { exitCode } = error.end;
  const code = codeOf(error);
  // The line is on stderr already.
  if (exitCode === 127 && /: command not found$/.test(error.message))
    return {
      ran: true,
      code,
      words: "the command was not found (exit code 127). The next call for this slot tries it again.",
      quiet: false,
    };
  return {
    ran: true,
    code,
    words: `${sentence(error.message)} The next call for this slot runs it again.`,
    quiet: false,
  };
}

/** The exit code of the command, which its own runner could not pass on. */
function foundFailed(error: CommandFailed): Verdict {
  const words = `${sentence(error.message)} Its runner ended without reporting it; it is recorded now. The next call for this slot runs it again.`;
  return { ran: false, code: codeOf(error), words, quiet: false };
}

function codeOf({ end: { exitCode, signal } }: CommandFailed): number {
  return signal === null ? (exitCode ?? EXIT.problem) : 128 + (constants.signals[signal] ?? 0);
}

/** With one full stop, also where the message has its own. */
function sentence(message: string): string {
  return `${oneLine(message).replace(/\.$/, "")}.`;
}

/** A ledger of many hosts goes by the lease: until it is over nobody may take the slot over, though its runner is gone. */
async function deadRunner(store: Store, key: string): Promise<string | null> {
  const [stored] = await store.read([key]).catch(() => []);
  const next = stored ? afterDeadRunner(stored.record, instantOf(store), store) : null;
  return next === null ? null : `its runner is no longer running: ${next}`;
}

async function survivor(store: Store, key: string): Promise<number | null> {
  // A ledger that does not answer says nothing of it.
  const [stored] = await store.read([key]).catch(() => []);
  // What a command that failed left running does not make its doubt another one. One whose runner died still runs, also
  // where its end is to be held.
  const asks = stored && (runnerDied(stored.record) || !isHeld(stored.record));
  const group = asks ? groupOf(stored.record) : null;
  return group !== null && groupStanding(group) === "alive" ? group.group : null;
}

function plain(outcome: Outcome<CommandResult> | Absent): object {
  if (outcome.status !== "failed") return outcome;
  const { error, ...rest } = outcome;
  const end = error instanceof CommandFailed ? { end: error.end } : {};
  return { ...rest, error: { message: messageOf(error), ...end } };
}
