import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { isNevertwiceError, messageOf } from "../../core/errors.ts";
import type { EachProgress, EachReport, EachTrouble } from "../../engine/each.ts";
import { AGENT, agentOf } from "../agent-flag.ts";
import type { Command, Context } from "../command.ts";
import { EXIT, ProblemError, UsageError } from "../exit.ts";
import { plural, shellWord, shortKey } from "../format.ts";
import { InputLines } from "../input-lines.ts";
import { jsonLines } from "../json-lines.ts";
import { storeToName } from "../ledger.ts";
import { type AnyAction, loadActions } from "../load-actions.ts";
import { endProgress, showProgress } from "../progress.ts";
import { oneLine } from "../text.ts";

const REDRAW_MS = 100;
const SHOWN = 20;
const BAR = 24;
const NEWLINE = 10;

export const each: Command = {
  name: "each",
  summary: "run an action for every line of a JSON Lines file; what was done before is not done again",
  usage: ["<action> --actions <module> [--concurrency <n>] [--failed-to <file>] < inputs.jsonl"],
  about:
    "Reads one input per line from stdin and calls the action for each, in the ledger of the module's own nevertwice(). Interrupted, killed or failed on the way: start it again with the same file, within the action's keep (default: 30 days), and only what is missing is sent. Ctrl-C: nothing new is begun, what runs is waited for. Exit code 1: some inputs failed or are in doubt.",
  flags: {
    actions: { takes: "value", value: "module", about: "an ES module that exports the action" },
    concurrency: { takes: "value", value: "n", about: "calls under way at once, default: 20" },
    agent: AGENT,
    "failed-to": {
      takes: "value",
      value: "file",
      about: "write the inputs that failed there, one per line; lines that could not be read as they were",
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
  const { actions, owner } = await loadActions(file, io.cwd, `each ${file}`);
  const action = actions.find(({ actionName }) => actionName === name);
  if (action === undefined) {
    const names = actions.map(({ actionName }) => oneLine(actionName)).join(", ");
    throw new UsageError(`${file} exports no action named ${JSON.stringify(oneLine(name))}; it has: ${names}.`);
  }
  try {
    const run = new Run(context, action, io.stdin, () => storeToName(owner.store, io));
    return await run.go(concurrency);
  } finally {
    await owner.close();
  }
}

class Run {
  readonly #context: Context;
  readonly #action: AnyAction;
  readonly #stdin: NonNullable<Context["io"]["stdin"]>;
  readonly #store: () => string | undefined;
  readonly #lines = new InputLines();
  #bytes = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;

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

  async go(concurrency: number | undefined): Promise<number> {
    const { io, args } = this.#context;
    const abort = new AbortController();
    const stop = io.onInterrupt?.(() => {
      endProgress(io);
      if (!abort.signal.aborted) this.#context.note("stopping: waiting for what runs. Start it again to go on.");
      abort.abort();
    });
    const tenant = args.text("tenant");
    const options = {
      signal: abort.signal,
      onProgress: (progress: EachProgress) => this.#draw(progress),
      ...(concurrency !== undefined && { concurrency }),
      ...(tenant !== undefined && { tenant }),
      ...agentOf(this.#context),
    };
    try {
      return await this.#finish(await this.#action.each(this.#inputs(), options));
    } catch (error) {
      endProgress(io);
      const partial = isNevertwiceError(error) ? (error.outcome as EachReport<unknown> | undefined) : undefined;
      if (partial !== undefined && "done" in partial) await this.#keepFailed(partial);
      throw error;
    } finally {
      endProgress(io);
      stop?.();
    }
  }

  async *#inputs(): AsyncIterable<unknown> {
    for await (const line of jsonLines(this.#stdin.chunks)) {
      this.#bytes = line.bytes;
      if (this.#lines.take(line)) yield line.input;
    }
  }

  #draw(progress: EachProgress): void {
    const { io } = this.#context;
    const now = performance.now();
    if (!io.stderr.isTTY || now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    const { bytes } = this.#stdin;
    const share = bytes === null || bytes === 0 ? null : Math.min(1, this.#bytes / bytes);
    const filled = share === null ? 0 : Math.floor(share * BAR);
    const bar = share === null ? "" : `${"█".repeat(filled)}${"░".repeat(BAR - filled)} ${Math.floor(share * 100)} %  `;
    showProgress(io, bar + counts(progress, this.#lines.brokenCount));
  }

  async #finish(report: EachReport<unknown>): Promise<number> {
    const { args } = this.#context;
    await this.#keepFailed(report);
    const { broken, brokenCount } = this.#lines;
    const [done, failed] = [report.done + brokenCount, report.failed + brokenCount];
    if (args.on("json")) {
      const placed = (one: EachTrouble<unknown>) => ({
        line: this.#lines.lineOf(one.index),
        ...one,
        why: messageOf(one.why),
      });
      const lists = { failedInputs: report.failedInputs.map(placed), inDoubtInputs: report.inDoubtInputs.map(placed) };
      this.#context.json({ ...report, ...lists, done, failed, brokenLines: broken.map(({ line }) => line) });
    } else this.#tell(report);
    return failed > 0 || report.inDoubt > 0 || !report.complete ? EXIT.problem : EXIT.ok;
  }

  #tell(report: EachReport<unknown>): void {
    const { line, note, suggest } = this.#context;
    const lines = this.#lines;
    for (const { line, why } of lines.broken.slice(0, SHOWN)) note(`line ${line} failed: ${why}`);
    for (const { index, why, key } of report.failedInputs.slice(0, SHOWN))
      note(
        `line ${lines.lineOf(index)}${key === undefined ? "" : ` (${shortKey(key)})`} failed: ${oneLine(messageOf(why))}`,
      );
    for (const { index, why, key } of report.inDoubtInputs.slice(0, SHOWN))
      note(`line ${lines.lineOf(index)} (${shortKey(key ?? "")}) is in doubt: ${oneLine(messageOf(why))}`);
    const done = report.done + lines.brokenCount;
    line(`${plural(done, "input")}: ${counts(report, lines.brokenCount)}`);
    if (!report.complete)
      line("Stopped before the end. Start it again with the same inputs: only what is missing is sent.");
    if (report.inDoubt > 0) line(`Settle the doubts:\n  ${suggest("ls --doubt", this.#store())}`);
  }

  async #keepFailed({ failedInputs, failed }: EachReport<unknown>): Promise<void> {
    const to = this.#context.args.text("failed-to");
    if (to === undefined) return;
    const { broken, brokenCount } = this.#lines;
    const entries = [
      ...failedInputs.map(({ index, input }) => ({
        line: this.#lines.lineOf(index),
        raw: Buffer.from(JSON.stringify(input)),
      })),
      // As they were read: to be corrected there.
      ...broken,
    ].sort((one, other) => one.line - other.line);
    const bytes = Buffer.concat(entries.flatMap(({ raw }) => [raw, Buffer.of(NEWLINE)]));
    try {
      // Inputs: for the one who runs this.
      await writeFile(resolve(this.#context.io.cwd, to), bytes, { mode: 0o600 });
    } catch (error) {
      throw new ProblemError(`--failed-to ${to} could not be written: ${messageOf(error)}`, { cause: error });
    }
    if (failed + brokenCount > entries.length)
      this.#context.note(`${to} holds the first ${entries.length} of ${failed + brokenCount} failed inputs.`);
    if (broken.length > 0)
      this.#context.note(
        `${to} also holds ${plural(brokenCount, "line")} that could not be read, unchanged: correct ${brokenCount === 1 ? "it" : "them"} before you start ${to} again.`,
      );
  }
}

function counts({ sent, replayed, failed, inDoubt, elsewhere }: EachProgress, broken: number): string {
  const parts = [`${sent} sent`, `${replayed} done before`, `${failed + broken} failed`, `${inDoubt} in doubt`];
  if (elsewhere > 0) parts.push(`${elsewhere} in other hands`);
  return parts.join(", ");
}
