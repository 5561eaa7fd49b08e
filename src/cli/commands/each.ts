import { messageOf } from "../../core/errors.ts";
import type { EachFailure, EachProgress, EachReport, EachTrouble } from "../../engine/each-tally.ts";
import { AGENT, agentOf } from "../agent-flag.ts";
import type { Command, Context } from "../command.ts";
import { FailedFile } from "../each/failed-file.ts";
import { InputLines } from "../each/input-lines.ts";
import { countsText, EachView } from "../each/view.ts";
import { jsonLines } from "../json-lines.ts";
import { storeToName } from "../ledger/open.ts";
import { type AnyAction, loadActions } from "../load-actions.ts";
import { EXIT, UsageError } from "../term/exit.ts";
import { plural, shellWord } from "../term/format.ts";
import { endProgress } from "../term/progress.ts";
import { oneLine, wrap } from "../term/text.ts";

// As many as are under way at once, unless told otherwise: a provider that is down has failed all of them.
const DEFAULT_STOP_AFTER = 20;
// More than anybody settles one by one.
const MANY_DOUBTS = 20;

export const each: Command = {
  name: "each",
  summary: "run an action for every line of a JSON Lines file; what was done before is not done again",
  usage: ["<action> --actions <module> [--concurrency <n>] [--stop-after <n>] [--failed-to <file>] < inputs.jsonl"],
  about:
    "Reads one input per line from stdin and calls the action for each, in the ledger of the module's own nevertwice(). Interrupted, killed or failed on the way: start it again with the same file, within the action's keep (default: 30 days), and only what is missing is sent. Ctrl-C: nothing new is begun, what runs is waited for. When 20 inputs in a row failed or came into doubt (--stop-after), it stops so too. Inputs that were refused for good, conflicts, lines that cannot be read and what an earlier start left do not count. Exit code 1: some inputs failed or are in doubt. 4: it stopped by --stop-after.",
  flags: {
    actions: { value: "module", about: "an ES module that exports the action" },
    concurrency: { value: "n", about: "calls under way at once, default: 20" },
    agent: AGENT,
    "stop-after": {
      value: "n",
      about: `end when so many inputs in a row failed or came into doubt, default: ${DEFAULT_STOP_AFTER}; 0 or never: do not end for that`,
    },
    "failed-to": {
      value: "file",
      about:
        "write each input that fails there, one per line, when it fails; lines that could not be read as they were",
    },
  },
  operands: 1,
  operand: "action",
  beyondOperands: ([action = "", file = ""]) =>
    `The inputs are read from stdin: nevertwice each ${shellWord(action)} --actions ./dist/actions.js < ${shellWord(file)}.`,
  examples: [
    ["each send_newsletter --actions ./dist/actions.js < recipients.jsonl", "a mail to each"],
    [
      "each send_newsletter --actions ./dist/actions.js --failed-to failed.jsonl < recipients.jsonl",
      "keep what failed",
    ],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const [name] = args.operands;
  const file = args.text("actions");
  const example = "nevertwice each send_newsletter --actions ./dist/actions.js < recipients.jsonl";
  if (name === undefined || file === undefined)
    throw new UsageError(`each needs an action's name and the module that exports it: ${example}`);
  if (args.on("store"))
    throw new UsageError(
      "each uses the ledger of the module's own nevertwice(): leave --store out, or set NEVERTWICE_STORE for both.",
    );
  if (io.stdin === undefined)
    throw new UsageError(`each reads its inputs from stdin, and nothing is piped in: ${example}`);
  const concurrency = args.count("concurrency");
  const stopAfter = stopAfterOf(context);
  const { actions, owner } = await loadActions(file, io.cwd, `each ${file}`);
  const action = actions.find(({ actionName }) => actionName === name);
  if (action === undefined) {
    const names = actions.map(({ actionName }) => oneLine(actionName)).join(", ");
    throw new UsageError(`${file} exports no action named ${JSON.stringify(oneLine(name))}; it has: ${names}.`);
  }
  try {
    const run = new Run(context, action, io.stdin, () => storeToName(owner.store, io));
    return await run.go({ stopAfter, ...(concurrency !== undefined && { concurrency }) });
  } finally {
    await owner.close();
  }
}

function stopAfterOf({ args }: Context): number {
  const given = args.text("stop-after")?.trim().toLowerCase();
  if (given === undefined) return DEFAULT_STOP_AFTER;
  if (given === "never" || /^0+$/.test(given)) return 0;
  if (/^\d{1,6}$/.test(given)) return Number(given);
  throw new UsageError(
    `--stop-after ${oneLine(given)}: it takes a whole number of failures in a row, for example --stop-after 50, or never.`,
  );
}

class Run {
  readonly #context: Context;
  readonly #action: AnyAction;
  readonly #stdin: NonNullable<Context["io"]["stdin"]>;
  readonly #store: () => string | undefined;
  readonly #lines = new InputLines();

  constructor(
    context: Context,
    action: AnyAction,
    stdin: NonNullable<Context["io"]["stdin"]>,
    store: () => string | undefined,
  ) {
    this.#store = store;
    this.#context = context;
    this.#action = action;
    this.#stdin = stdin;
  }

  async go(given: { readonly concurrency?: number; readonly stopAfter: number }): Promise<number> {
    const { io, args } = this.#context;
    const failedFile = FailedFile.open(this.#context);
    // Where nobody sees how far it is, the file is read once.
    const isSeen = io.stderr.isTTY || !args.on("json");
    const total = isSeen ? ((await this.#stdin.file?.countLines()) ?? null) : null;
    const view = new EachView(this.#context, total);
    const abort = new AbortController();
    const stop = io.onInterrupt?.(() => {
      endProgress(io);
      if (!abort.signal.aborted) this.#context.note("stopping: waiting for what runs. Start it again to go on.");
      abort.abort();
    });
    const tenant = args.text("tenant");
    const options = {
      ...given,
      signal: abort.signal,
      onProgress: (progress: EachProgress) => view.progress(progress),
      onFailure: (failure: EachFailure<unknown>) => {
        view.failed(failure, this.#lines.lineOf(failure.index));
        if (failure.status === "failed") failedFile?.write(Buffer.from(JSON.stringify(failure.input)));
      },
      ...(total !== null && { total }),
      ...(tenant !== undefined && { tenant }),
      ...agentOf(this.#context),
    };
    try {
      const report = await this.#action.each(this.#inputs(view, failedFile), options);
      view.close();
      view.summary();
      return this.#finish(report, failedFile);
    } finally {
      view.close();
      failedFile?.close();
      stop?.();
    }
  }

  async *#inputs(view: EachView, failedFile: FailedFile | null): AsyncIterable<unknown> {
    for await (const line of jsonLines(this.#stdin.chunks)) {
      if (this.#lines.take(line)) {
        yield line.input;
        continue;
      }
      view.broken(line.number, line.broken ?? "");
      if (failedFile === null) continue;
      // As it was read: to be corrected there.
      failedFile.write(line.raw ?? Buffer.alloc(0));
      failedFile.broken += 1;
    }
  }

  #finish(report: EachReport<unknown>, failedFile: FailedFile | null): number {
    const { args } = this.#context;
    this.#tellBroken(failedFile);
    const { broken, brokenCount } = this.#lines;
    const [done, failed] = [report.done + brokenCount, report.failed + brokenCount];
    if (args.on("json")) {
      const placed = (one: EachTrouble<unknown>) => ({
        line: this.#lines.lineOf(one.index),
        ...one,
        why: messageOf(one.why),
      });
      const lists = { failedInputs: report.failedInputs.map(placed), inDoubtInputs: report.inDoubtInputs.map(placed) };
      const stopped = report.stopped && { stopped: { ...report.stopped, why: messageOf(report.stopped.why) } };
      this.#context.json({ ...report, ...stopped, ...lists, done, failed, brokenLines: broken });
    } else this.#tell(report);
    if (report.stopped !== undefined) return EXIT.stopped;
    return failed > 0 || report.inDoubt > 0 || !report.complete ? EXIT.problem : EXIT.ok;
  }

  #tell(report: EachReport<unknown>): void {
    const { line, suggest, width } = this.#context;
    const { brokenCount } = this.#lines;
    line(`${plural(report.done + brokenCount, "input")}: ${countsText(report, brokenCount)}`);
    const again = "Start it again with the same inputs: only what is missing is sent.";
    if (report.stopped !== undefined) {
      const { inARow, why } = report.stopped;
      const said = `Stopped: ${plural(inARow, "input")} in a row failed or came into doubt, the last with: ${oneLine(messageOf(why))}`;
      for (const one of wrap(`${ended(said)} Nothing was begun after that, and nothing is lost. ${again}`, width))
        line(one);
      line("To go on whatever fails: --stop-after never");
    } else if (!report.complete) line(`Stopped before the end. ${again}`);
    const listing = report.inDoubt > MANY_DOUBTS ? "ls --doubt --group" : "ls --doubt";
    if (report.inDoubt > 0) line(`Settle the doubts:\n  ${suggest(listing, this.#store())}`);
  }

  #tellBroken(failedFile: FailedFile | null): void {
    if (failedFile === null || failedFile.broken === 0) return;
    const { name, broken } = failedFile;
    this.#context.note(
      `${name} also holds ${plural(broken, "line")} that could not be read, unchanged: correct ${broken === 1 ? "it" : "them"} before you start ${name} again.`,
    );
  }
}

function ended(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
