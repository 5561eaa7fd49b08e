import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { isNevertwiceError, messageOf } from "../../core/errors.ts";
import type { EachProgress, EachReport } from "../../engine/each.ts";
import type { Command, Context } from "../command.ts";
import { EXIT, ProblemError, UsageError } from "../exit.ts";
import { plural, shortKey } from "../format.ts";
import { jsonLines, type Line } from "../json-lines.ts";
import { type AnyAction, loadActions } from "../load-actions.ts";
import { endProgress, showProgress } from "../progress.ts";
import { oneLine } from "../text.ts";

const REDRAW_MS = 100;
const SHOWN = 20;
const BAR = 24;

export const each: Command = {
  name: "each",
  summary: "run an action for every line of a JSON Lines file; what was done before is not done again",
  usage: ["<action> --actions <module> [--concurrency <n>] [--failed-to <file>] < inputs.jsonl"],
  about:
    "Reads one input per line from stdin and calls the action for each, in the ledger of the module's own nevertwice(). Interrupted, killed or failed on the way: start it again with the same file, within the action's keep (30 days unless given), and only what is missing is sent. Ctrl-C: nothing new is begun, what runs is waited for. Exit code 1: some inputs failed or are in doubt.",
  flags: {
    actions: { takes: "value", value: "module", about: "an ES module that exports the action" },
    concurrency: { takes: "value", value: "n", about: "calls under way at once: 20 unless given" },
    "failed-to": { takes: "value", value: "file", about: "write the inputs that failed there, one per line" },
  },
  operands: 1,
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
  const { actions, owner } = await loadActions(file, io.cwd);
  const action = actions.find(({ actionName }) => actionName === name);
  if (action === undefined) {
    const names = actions.map(({ actionName }) => oneLine(actionName)).join(", ");
    throw new UsageError(`${file} exports no action named ${JSON.stringify(oneLine(name))}; it has: ${names}.`);
  }
  try {
    const run = new Run(context, action, io.stdin);
    return await run.go(concurrency);
  } finally {
    await owner.close();
  }
}

class Run {
  readonly #context: Context;
  readonly #action: AnyAction;
  readonly #stdin: NonNullable<Context["io"]["stdin"]>;
  readonly #broken: Line[] = [];
  #brokenCount = 0;
  #bytes = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(context: Context, action: AnyAction, stdin: NonNullable<Context["io"]["stdin"]>) {
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
      if (line.broken === undefined) yield line.input;
      else {
        this.#brokenCount += 1;
        if (this.#broken.length < SHOWN) this.#broken.push(line);
      }
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
    showProgress(io, bar + counts(progress, this.#brokenCount));
  }

  async #finish(report: EachReport<unknown>): Promise<number> {
    const { args } = this.#context;
    await this.#keepFailed(report);
    const failed = report.failed + this.#brokenCount;
    if (args.on("json")) {
      const why = (one: { why: unknown }) => ({ ...one, why: messageOf(one.why) });
      const lists = { failedInputs: report.failedInputs.map(why), inDoubtInputs: report.inDoubtInputs.map(why) };
      this.#context.json({ ...report, ...lists, failed, brokenLines: this.#broken.map(({ number }) => number) });
    } else this.#tell(report);
    return failed > 0 || report.inDoubt > 0 || !report.complete ? EXIT.problem : EXIT.ok;
  }

  #tell(report: EachReport<unknown>): void {
    const { line, note, suggest } = this.#context;
    for (const { number, broken } of this.#broken) note(`line ${number}: ${broken}`);
    for (const { index, why, key } of report.failedInputs.slice(0, SHOWN))
      note(`input ${index + 1}${key === undefined ? "" : ` (${shortKey(key)})`} failed: ${oneLine(messageOf(why))}`);
    for (const { index, why, key } of report.inDoubtInputs.slice(0, SHOWN))
      note(`input ${index + 1} (${shortKey(key ?? "")}) is in doubt: ${oneLine(messageOf(why))}`);
    const done = report.done + this.#brokenCount;
    line(`${plural(done, "input")}: ${counts(report, this.#brokenCount)}`);
    if (!report.complete)
      line("Stopped before the end. Start it again with the same inputs: only what is missing is sent.");
    if (report.inDoubt > 0) line(`Settle the doubts:\n  ${suggest("ls --doubt")}`);
  }

  async #keepFailed({ failedInputs, failed }: EachReport<unknown>): Promise<void> {
    const to = this.#context.args.text("failed-to");
    if (to === undefined) return;
    const text = failedInputs.map(({ input }) => `${JSON.stringify(input)}\n`).join("");
    try {
      // Inputs: for the one who runs this.
      await writeFile(resolve(this.#context.io.cwd, to), text, { mode: 0o600 });
    } catch (error) {
      throw new ProblemError(`--failed-to ${to} could not be written: ${messageOf(error)}`, { cause: error });
    }
    if (failed > failedInputs.length)
      this.#context.note(`${to} holds the first ${failedInputs.length} of ${failed} failed inputs.`);
  }
}

function counts({ sent, replayed, failed, inDoubt, elsewhere }: EachProgress, broken: number): string {
  const parts = [`${sent} sent`, `${replayed} done before`, `${failed + broken} failed`, `${inDoubt} in doubt`];
  if (elsewhere > 0) parts.push(`${elsewhere} in other hands`);
  return parts.join(", ");
}
