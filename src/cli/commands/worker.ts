import { performance } from "node:perf_hooks";
import { messageOf } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { clearInterval, type RealTimer, setInterval } from "../../engine/real-timers.ts";
import { onlyOf } from "../../engine/tenancy.ts";
import type { Worker, WorkerStatus } from "../../outbox/worker.ts";
import type { Command, Context } from "../command.ts";
import { loadActions } from "../load-actions.ts";
import { EXIT, UsageError } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { oneLine } from "../term/text.ts";

// A line that a person watches, and lines in a log: how often each.
const LIVE_MS = 250;
const LOG_MS = 10_000;
// Counting a large ledger takes its time: no more than a tenth of it.
const LEAST_COUNT_MS = 2_000;
const COUNT_SHARE = 10;

export const worker: Command = {
  name: "worker",
  summary: "run what is queued (action.enqueue), until it is told to stop",
  usage: ["<module> [--only <actions>] [--concurrency <n>] [--until-idle]"],
  about:
    "Loads the module and runs the queued intents of the actions it exports, in the ledger of the module's own nevertwice(). As many workers as you like may run, on as many hosts as share the ledger. Ctrl-C or SIGTERM: nothing new is begun, what has not begun is handed back, what runs is waited for; a second one ends it at once, and what it left in flight becomes a doubt when its lease is over.",
  flags: {
    only: { value: "actions", about: "only these actions of the module, with commas" },
    concurrency: { value: "n", about: "intents under way at once, default: 20" },
    "until-idle": {
      about: "end when nothing is due any more; exit code 3 if the ledger does not answer",
    },
  },
  operands: 1,
  operand: "module",
  examples: [
    ["worker ./dist/actions.js", "all actions of the module"],
    ["worker ./dist/actions.js --only send_followup --concurrency 50", "one of them"],
    ["worker ./dist/actions.js --until-idle", "work off what is due, from cron"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const [file] = args.operands;
  if (file === undefined)
    throw new UsageError("worker needs the module that exports your actions: nevertwice worker ./dist/actions.js");
  if (args.on("store"))
    throw new UsageError(
      "worker uses the ledger of the module's own nevertwice(): leave --store out, or set NEVERTWICE_STORE for both.",
    );
  const concurrency = args.count("concurrency");
  const { actions, owner } = await loadActions(file, io.cwd, `worker ${file}`);
  const defined = actions.map(({ actionName }) => actionName);
  const names = args.on("only") ? args.list("only") : defined;
  const missing = names.find((name) => !defined.includes(name));
  if (missing !== undefined) {
    await owner.close();
    const meant = nearest(missing, defined);
    throw new UsageError(
      `--only ${oneLine(missing)}: ${oneLine(file)} exports no such action.${meant === null ? "" : ` Did you mean ${oneLine(meant)}?`} It exports: ${defined.map(oneLine).join(", ")}.`,
    );
  }
  const tenant = args.text("tenant");
  const work = owner.worker({
    actions: names,
    ...(concurrency !== undefined && { concurrency }),
    ...(tenant !== undefined && { tenant }),
  });
  let ended = false;
  const view = new View(context, work, () => owner.store.stats(onlyOf(tenant ?? owner.tenant)));
  try {
    if (!args.on("json")) context.line(`worker on ${oneLine(owner.store.name)}: ${names.map(oneLine).join(", ")}`);
    await (args.on("until-idle") ? work.drain() : untilAsked(context, work));
    ended = true;
    return work.status.failed > 0 || work.status.inDoubt > 0 ? EXIT.problem : EXIT.ok;
  } finally {
    view.close();
    await owner.close();
    // One document: where it did not end well, that is the error's.
    if (args.on("json") && ended) context.json({ ...work.status });
    else if (args.on("json")) context.note(`stopped: ${summary(work.status)}`);
    else context.line(`stopped: ${summary(work.status)}`);
  }
}

async function untilAsked(context: Context, work: Worker): Promise<void> {
  await work.start();
  await new Promise<void>((done) => {
    let asked = false;
    const stop = context.io.onInterrupt?.(() => {
      // The second time somebody means it: the finally above still tells what it came to.
      if (asked) process.exit(EXIT.problem);
      asked = true;
      endProgress(context.io);
      context.note(
        `stopping: waiting for ${plural(work.status.inFlight, "intent")} under way. Once more ends it at once.`,
      );
      work.stop().then(() => {
        stop?.();
        done();
      }, done);
    });
  });
}

function summary({ done, retried, failed, expired, inDoubt, givenBack }: WorkerStatus): string {
  const parts = [`${done} done`, `${retried} to be tried again`, `${failed} failed`];
  if (expired > 0) parts.push(`${expired} of them expired`);
  parts.push(`${inDoubt} in doubt`);
  if (givenBack > 0) parts.push(`${givenBack} put off`);
  return parts.join(", ");
}

type Waiting = { readonly pending: number; readonly unknown: number };
type Count = () => Promise<{ readonly states: Waiting }>;

/** A line that is written over on a terminal; elsewhere a line now and then, and every error. */
class View {
  readonly #context: Context;
  readonly #worker: Worker;
  readonly #count: Count;
  readonly #timer: RealTimer;
  readonly #unlisten: () => void;
  #waiting: Waiting | null = null;
  #countAgainAt = 0;
  #shown = { done: 0, at: performance.now() };
  #rate = 0;

  constructor(context: Context, worker: Worker, count: Count) {
    this.#context = context;
    this.#worker = worker;
    this.#count = count;
    this.#unlisten = worker.on((event) => {
      if (event.type === "error") this.#say(`the worker goes on after an error: ${oneLine(messageOf(event.error))}`);
    });
    this.#timer = setInterval(() => this.#show(), context.io.stderr.isTTY ? LIVE_MS : LOG_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#unlisten();
    endProgress(this.#context.io);
  }

  #show(): void {
    const now = performance.now();
    const { status } = this.#worker;
    this.#rate = ((status.done - this.#shown.done) * 1_000) / Math.max(1, now - this.#shown.at);
    this.#shown = { done: status.done, at: now };
    if (now >= this.#countAgainAt) void this.#recount(now);
    const backlog = this.#waiting === null ? "…" : String(this.#waiting.pending);
    const doubt = this.#waiting === null ? status.inDoubt : this.#waiting.unknown;
    const line = `${Math.round(this.#rate)}/s, backlog ${backlog}, in flight ${status.inFlight}, done ${status.done}, failed ${status.failed}, doubt ${doubt}`;
    if (this.#context.io.stderr.isTTY) showProgress(this.#context.io, line);
    else if (!this.#context.args.on("json")) this.#context.line(line);
  }

  async #recount(startedAt: number): Promise<void> {
    this.#countAgainAt = Number.POSITIVE_INFINITY;
    try {
      this.#waiting = (await this.#count()).states;
    } catch {
      // The worker itself says what is wrong with the store.
    }
    const tookMs = performance.now() - startedAt;
    this.#countAgainAt = performance.now() + Math.max(LEAST_COUNT_MS, COUNT_SHARE * tookMs);
  }

  #say(text: string): void {
    endProgress(this.#context.io);
    this.#context.note(text);
  }
}
