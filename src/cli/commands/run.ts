import { lstatSync } from "node:fs";
import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { StringDecoder } from "node:string_decoder";
import type { Duration } from "../../core/duration.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import { windowsIn } from "../../core/keep.ts";
import { asContainer, DEFAULT_KEEP, resolveKeep, resolvePolicy } from "../../core/policy.ts";
import type { Store } from "../../core/store.ts";
import { nevertwice, servicesOf } from "../../nevertwice.ts";
import { DEFAULT_RECENT, runCommandJob } from "../../schedule/command/job.ts";
import { requirePlanText } from "../../schedule/command/plan.ts";
import { jobAction } from "../../schedule/job-action.ts";
import { KnownSlots } from "../../schedule/known-slots.ts";
import { slotLengthMs, slotOf } from "../../schedule/slot.ts";
import { slotKeep } from "../../schedule/slot-keep.ts";
import { instantOfSlot, slotOfInstant, type Timetable, timetable } from "../../schedule/timetable.ts";
import { AGENT, agentOf } from "../agent-flag.ts";
import type { Command, Context, Sink } from "../command.ts";
import { exitFolder, openLedger } from "../ledger/open.ts";
import { report } from "../run-report.ts";
import { asUsage, EXIT, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

export const run: Command = {
  name: "run",
  summary: "run a command once per slot, whatever cron, systemd or a person does",
  usage: [
    "--job <name> --per <hour|day|week|month|quarter|year|15m> [--tz <zone>] [flags] -- <command> [arguments]",
    "--job <name> --cron <expression> [--tz <zone>] [flags] -- <command> [arguments]",
    "--job <name> --slot <text> [flags] -- <command> [arguments]",
  ],
  about:
    "The slot is claimed in the ledger before the command begins, and its end (exit code, signal, duration, last lines) is recorded. Finished or running: skipped. Failed: run again by the next call. So a command is run at least once until it has ended with 0, and never two at a time on one host. If the runner is killed, its command is left to finish, and the next call records its exit code. Only a command that was killed too, or that never began, is run again: at once where the ledger is a file of this host, otherwise when the lease is over. --hold leaves whatever ended without success to a person.\nThe command finds NEVERTWICE_KEY, _JOB, _SLOT, _SLOT_NUMBER, _ATTEMPT, _FENCE, _SEED, _RECENT, _RESULT_FILE, and with --plan _PLAN and _PLAN_FILE in its environment. Its output is passed on; with --json its stdout goes to stderr, so that stdout is one document.\nThe exit code is the command's own (128 + n for signal n), the one of --on-skip where it was skipped, and 13 where the slot is in doubt, the command was ended by its timeout, or it ended with 0 and the ledger could not be told.",
  flags: {
    job: { value: "name", about: "the job; part of the key" },
    per: {
      value: "window",
      about: "one run per hour, day, week, month, quarter, year or duration (15m)",
    },
    cron: { value: "expression", about: "one run per scheduled instant: the last one up to now" },
    slot: { value: "text", about: "one run per this text, such as a deployment's commit" },
    tz: { value: "zone", about: "the zone of --per and --cron, default: UTC" },
    lease: { value: "duration", about: "how long a silent runner keeps its slot, default: 30m" },
    timeout: { value: "duration", about: "the longest a run may take, default: unlimited" },
    keep: {
      value: "duration",
      about: "how long a finished slot is remembered, or forever: 30d, or two slots where that is more",
    },
    plan: {
      value: "command",
      about: "a shell command that prints the slot's plan as JSON; made once, the same in every attempt",
    },
    recent: {
      value: "n",
      about: `how many of the last results NEVERTWICE_RECENT has, default: ${DEFAULT_RECENT}`,
    },
    "result-file": {
      value: "path",
      about: "where the command writes its result as JSON; NEVERTWICE_RESULT_FILE names it",
    },
    hold: {
      about:
        "whatever ends without success waits for a person, whatever later calls say: --on-stale hold, --on-failure hold",
    },
    "on-stale": {
      value: "what",
      about: "a runner that was killed with its command, once that had begun: take-over (the default) or hold",
    },
    "on-failure": {
      value: "what",
      about: "retry (the default): the next call runs it again; hold: a doubt",
    },
    agent: AGENT,
    "on-skip": { value: "code", about: "the exit code where nothing was run, default: 0" },
  },
  // The command line after -- counts as words too.
  operands: 1_000,
  examples: [
    ["run --job digest --per day --tz Europe/Berlin -- node publish.js", "in a crontab, every ten minutes"],
    ["run --job deploy --slot $(git rev-parse HEAD) --on-skip 75 -- ./deploy.sh", "one deployment per commit"],
  ],
  run: runJob,
};

async function runJob(context: Context): Promise<number> {
  const { args, io } = context;
  const job = args.text("job");
  if (job === undefined || job.trim() === "")
    throw new UsageError("run needs --job <name>: it names the work, and is part of the key of each run.");
  asUsage(() => jobAction(job));
  const extra = args.operands.slice(0, args.operands.length - args.behindDashes.length);
  if (extra.length > 0)
    throw new UsageError(
      `unexpected arguments before --: ${extra.map(oneLine).join(" ")}. Write the command after it: nevertwice run --job digest --per day -- node publish.js`,
    );
  if (args.behindDashes.length === 0)
    throw new UsageError("run needs a command after --: nevertwice run --job digest --per day -- node publish.js");
  requireOneSlot(context);
  const { hold, stale, failed } = onTrouble(context);
  const plan = args.text("plan");
  asUsage(() => requirePlanText(plan));
  const recent = recentCount(context);
  const resultFile = args.text("result-file");
  if (resultFile?.trim() === "")
    throw new UsageError("--result-file is blank. Name the file that the command writes its result to, as JSON.");
  const there =
    resultFile === undefined ? undefined : lstatSync(resolve(io.cwd, resultFile), { throwIfNoEntry: false });
  if (there !== undefined && !there.isFile())
    throw new UsageError(
      `--result-file ${oneLine(resultFile as string)} is not a file. Name a path where the command may create one; what is there is removed before each run.`,
    );
  const onSkip = exitCode(context);
  const { timeoutMs, ...given } = durations(context);
  const lasting = { ...given, ...keepOf(context) };
  const store = openLedger(args.text("store"), io);
  const tenant = args.text("tenant");
  const named = agentOf(context);
  const nt = nevertwice({
    store,
    sweep: false,
    onWarning: () => {},
    ...(tenant !== undefined && { tenant }),
    ...named,
  });
  try {
    const { slot, times } = slotFor(context, nt.store.now());
    const json = args.on("json");
    const exits = exitFolder(args.text("store"), store, io);
    const { outcome, ...ran } = await runCommandJob(nt, {
      job,
      slot,
      command: args.behindDashes,
      stale,
      failed,
      hold,
      recent,
      ...(tenant !== undefined && { tenant }),
      ...(plan !== undefined && { plan }),
      ...(resultFile !== undefined && { resultFile }),
      ...(times !== undefined && { times }),
      ...lasting,
      mayBeForgotten: () => mayBeForgotten(context, { job, slot, keep: lasting.keep }, nt.store),
      // What the command guards itself is done by the same agent.
      env: named.agent === undefined ? io.env : { ...io.env, NEVERTWICE_AGENT: named.agent },
      cwd: io.cwd,
      stdout: passOn(json ? io.stderr : io.stdout),
      stderr: passOn(io.stderr),
      monotonic: () => performance.now(),
      onSignal: forwardSignals,
      ...(exits !== undefined && { exits }),
      onNoExitFile: (why) =>
        context.note(
          `${oneLine(job)} ${oneLine(slot)}: the exit code cannot be kept in ${exits?.path} (${oneLine(why)}). The command runs all the same; should this runner be killed, the slot is taken over once nothing of the command is left, even if it had finished.`,
        ),
      onTakeOver: () =>
        context.note(
          `${oneLine(job)} ${oneLine(slot)}: taken over. The first runner was on another host, in another container or before a reboot, and its command may still run there: only processes of this host can be looked for.`,
        ),
      writeEnd: async () => {
        const { untold } = servicesOf(nt).engine.services;
        if (untold.size === 0) return true;
        context.note(`${oneLine(job)} ${oneLine(slot)}: the ledger does not answer; trying again to record the end.`);
        return (await untold.writeAll()).length === 0;
      },
    });
    return await report(context, { job, slot, onSkip, stale, failed, timeoutMs, ...ran }, outcome, nt.store);
  } finally {
    await nt.close();
  }
}

/** One word for both, or each by itself. */
function onTrouble(context: Context): { hold: boolean; stale: "take-over" | "hold"; failed: "retry" | "hold" } {
  const hold = context.args.on("hold");
  const stale = choice(context, "on-stale", ["take-over", "hold"] as const);
  const failed = choice(context, "on-failure", ["retry", "hold"] as const);
  if (!hold) return { hold, stale, failed };
  for (const flag of ["on-stale", "on-failure"]) {
    const given = context.args.text(flag);
    if (given !== undefined && given !== "hold")
      throw new UsageError(`--hold and --${flag} ${given} say two things. Leave one of them out.`);
  }
  return { hold, stale: "hold", failed: "hold" };
}

const MOST_RECENT = 1_000;

function recentCount({ args }: Context): number {
  const text = args.text("recent");
  if (text === undefined) return DEFAULT_RECENT;
  const count = Number(text);
  if (/^\d+$/.test(text) && count <= MOST_RECENT) return count;
  throw new UsageError(`--recent ${oneLine(text)}: it takes a whole number from 0 to ${MOST_RECENT}.`);
}

function choice<T extends string>({ args }: Context, flag: string, words: readonly [T, ...T[]]): T {
  const given = args.text(flag);
  if (given === undefined) return words[0];
  const found = words.find((word) => word === given);
  if (found !== undefined) return found;
  throw new UsageError(`--${flag} ${oneLine(given)}: it takes ${words.join(" or ")}.`);
}

function exitCode({ args }: Context): number {
  const text = args.text("on-skip");
  if (text === undefined) return EXIT.ok;
  const code = Number(text);
  if (/^\d+$/.test(text) && code <= 255) return code;
  throw new UsageError(`--on-skip ${oneLine(text)}: it takes an exit code from 0 to 255.`);
}

/** Checked before the ledger is opened: a ledger that cannot be is another trouble, with another exit code. */
function durations({ args }: Context): { lease?: string; timeout?: string; keep?: string; timeoutMs: number } {
  const given = Object.fromEntries(
    ["lease", "timeout", "keep"].flatMap((flag) => {
      const text = args.text(flag);
      return text === undefined ? [] : [[flag, text]];
    }),
  );
  const { timeoutMs } = asUsage(() => resolvePolicy(asContainer(given), "run"));
  return { ...given, timeoutMs };
}

/** Of --per the window in the key says what it needs; of --cron only the expression does. */
function keepOf({ args }: Context): { keep?: Duration | "forever" } {
  const [per, cron, slot, tz, keep] = ["per", "cron", "slot", "tz", "keep"].map((flag) => args.text(flag));
  return inFlags(args, () => {
    if (cron !== undefined) {
      const times = timetable({ cron, ...(tz !== undefined && { tz }) }, "--cron");
      return { keep: slotKeep(keep, times.longestGapMs(), "run") };
    }
    if (keep === undefined) return {};
    const lengthMs =
      per !== undefined ? slotLengthMs(per) : Math.max(0, ...windowsIn(slot ?? "").map((one) => one.lengthMs));
    return { keep: slotKeep(keep, lengthMs, "run") };
  });
}

/** What the library says about its options, in the words of the command line. */
function inFlags<T>(args: Context["args"], work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!isNevertwiceError(error) || error.code !== "CONFIG") throw error;
    const [per, tz] = [args.text("per") ?? "", args.text("tz") ?? ""].map(oneLine);
    const message = error.message
      .replace(`per is ${JSON.stringify(args.text("per"))};`, `--per ${per}:`)
      .replace(`timeZone: ${JSON.stringify(args.text("tz"))} is`, `--tz ${tz}: it is`)
      .replace('say every: "5m" instead of cron', "use --per 5m instead of --cron");
    throw new UsageError(message, { cause: error });
  }
}

function requireOneSlot({ args }: Context): void {
  const given = ["per", "cron", "slot"].filter((flag) => args.on(flag)).map((flag) => `--${flag}`);
  if (given.length > 1)
    throw new UsageError(`${given.join(" and ")} exclude each other: each says what a slot is. Give one of them.`);
  if (given.length === 0)
    throw new UsageError("run needs one of --per <window>, --cron <expression> and --slot <text>: one run for each.");
}

function slotFor({ args }: Context, now: number): { slot: string; times?: Timetable } {
  const [per, cron, slot, tz] = ["per", "cron", "slot", "tz"].map((flag) => args.text(flag));
  if (slot !== undefined) {
    if (tz !== undefined) throw new UsageError("--tz belongs to --per and --cron; a --slot is taken as it is.");
    if (slot.trim() === "") throw new UsageError("--slot is blank: every run would share one slot.");
    return { slot };
  }
  return inFlags(args, () => {
    if (per !== undefined) return { slot: slotOf(per, now, tz) };
    const times = timetable({ cron: cron as string, ...(tz !== undefined && { tz }) }, "--cron");
    const [last] = times.upTo(now, 1);
    if (last === undefined) throw new UsageError(`--cron ${oneLine(cron as string)}: it was never due up to now.`);
    return { slot: slotOfInstant(last), times };
  });
}

/** The slots of --cron are those of nt.job: the same note says which of them the ledger still knows. */
async function mayBeForgotten(
  { args }: Context,
  { job, slot, keep }: { job: string; slot: string; keep: Duration | "forever" | undefined },
  store: Store,
): Promise<boolean> {
  const at = instantOfSlot(slot);
  if (at === null) return false;
  const known = new KnownSlots({
    store,
    tenant: args.text("tenant") ?? "",
    secret: undefined,
    job,
    keepMs: resolveKeep(keep ?? DEFAULT_KEEP, "run"),
    keepBefore: resolveKeep(args.text("keep") ?? DEFAULT_KEEP, "run"),
  });
  const from = await known.from(at);
  // A person who names the slot has decided; the note was written all the same, for those who come after.
  return args.text("slot") === undefined && at < from;
}

function passOn(sink: Sink): (chunk: Buffer) => void {
  const decoder = new StringDecoder();
  return (chunk) => sink.write(decoder.write(chunk));
}

const FORWARDED: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];

/** The command is in a group of its own: a Ctrl-C and a `systemctl stop` reach it only through us. */
function forwardSignals(listen: (signal: NodeJS.Signals) => void): () => void {
  for (const signal of FORWARDED) process.on(signal, listen);
  return () => {
    for (const signal of FORWARDED) process.off(signal, listen);
  };
}
