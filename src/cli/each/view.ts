/** What a person sees of `each` while it runs: how far it is, how fast, how long it will take, and why inputs fail. */
import { performance } from "node:perf_hooks";
import { messageOf } from "../../core/errors.ts";
import type { EachCounts, EachFailure, EachProgress } from "../../engine/each-tally.ts";
import { clearInterval, type RealTimer, setInterval } from "../../engine/real-timers.ts";
import type { Context } from "../command.ts";
import { age, plural, shortKey } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { oneLine } from "../term/text.ts";
import { FailureCauses } from "./failure-causes.ts";

const REDRAW_MS = 100;
const LOG_MS = 10_000;
const BAR = 24;
const SHOWN = 20;
const IN_BETWEEN = 3;
// The first input also waits for what starts: a rate of its own would promise hours.
const LEAST_TO_RECKON = 5;

export class EachView {
  readonly #context: Context;
  readonly #total: number | null;
  readonly #causes = new FailureCauses();
  readonly #timer: RealTimer | null;
  /** One JSON document is all that a program wants. */
  readonly #quiet: boolean;
  #progress: EachProgress | null = null;
  #broken = 0;
  #unsaid = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;

  /** `total`: lines of the file; null where the inputs come from a pipe. */
  constructor(context: Context, total: number | null, everyMs = LOG_MS) {
    this.#context = context;
    this.#total = total;
    this.#quiet = context.args.on("json");
    this.#timer = this.#quiet && !context.io.stderr.isTTY ? null : setInterval(() => this.#log(), everyMs);
    this.#timer?.unref();
  }

  progress(progress: EachProgress): void {
    this.#progress = progress;
    const { io } = this.#context;
    const now = performance.now();
    if (!io.stderr.isTTY || now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    showProgress(io, this.#bar() + this.#text(progress));
  }

  failed({ status, key, why, error }: EachFailure<unknown>, line: number): void {
    const of = key === undefined ? "" : ` (${shortKey(key)})`;
    if (status === "failed") this.#fail("failed", line, messageOf(why), `line ${line}${of} failed`);
    // The error tells one doubt from another; why it is a doubt is the same for many.
    else this.#fail("in doubt", line, messageOf(error ?? why), `line ${line}${of} is in doubt`);
  }

  broken(line: number, why: string): void {
    this.#broken += 1;
    this.#fail("failed", line, why, `line ${line} failed`);
  }

  #fail(what: "failed" | "in doubt", line: number, message: string, words: string): void {
    if (this.#causes.add(what, line, message)) this.#note(`${words}: ${oneLine(message)}`);
    else this.#unsaid += 1;
  }

  #note(text: string): void {
    if (this.#quiet) return;
    endProgress(this.#context.io);
    this.#context.note(text);
  }

  /** Where there is no terminal: how far it is. Anywhere: how often the known causes came up since the last time. */
  #log(): void {
    if (this.#progress === null) return;
    if (!this.#context.io.stderr.isTTY) this.#note(`${this.#share()}${this.#text(this.#progress)}`);
    if (this.#unsaid === 0) return;
    this.#unsaid = 0;
    const causes = this.#causes.list().filter(({ count }) => count > 1);
    for (const { what, text, count } of causes.slice(0, IN_BETWEEN))
      this.#note(`so far ${count} ${what}: ${oneLine(text)}`);
    if (causes.length > IN_BETWEEN) this.#note(`so far ${plural(causes.length - IN_BETWEEN, "further cause")}`);
  }

  #done({ done }: EachProgress): number {
    return done + this.#broken;
  }

  #fraction(): number | null {
    if (this.#total === null || this.#total === 0 || this.#progress === null) return null;
    return Math.min(1, this.#done(this.#progress) / this.#total);
  }

  #share(): string {
    const fraction = this.#fraction();
    if (fraction === null || this.#progress === null) return "";
    return `${Math.floor(fraction * 100)} %, ${this.#done(this.#progress)} of ${plural(this.#total ?? 0, "input")}: `;
  }

  #bar(): string {
    const fraction = this.#fraction();
    if (fraction === null) return "";
    const filled = Math.floor(fraction * BAR);
    return `${"█".repeat(filled)}${"░".repeat(BAR - filled)} ${Math.floor(fraction * 100)} %  `;
  }

  #text(progress: EachProgress): string {
    const { rate } = progress;
    const left = this.#total === null ? 0 : this.#total - this.#done(progress);
    const time = rate > 0 && left > 0 && progress.done >= LEAST_TO_RECKON ? `, ${age((left / rate) * 1_000)} left` : "";
    return `${countsText(progress, this.#broken)}, ${rateText(rate)}${time}`;
  }

  /** What there was of each cause beyond the line that was said at once. */
  summary(): void {
    const causes = this.#causes.list().filter(({ count, isSaid }) => count > 1 || !isSaid);
    for (const { what, text, count, lines } of causes.slice(0, SHOWN)) {
      const more = count > lines.length ? ` and ${count - lines.length} more` : "";
      this.#note(
        `${count} ${what}: ${oneLine(text)} (${lines.length === 1 ? "line" : "lines"} ${lines.join(", ")}${more})`,
      );
    }
    const rest = causes.length - SHOWN;
    if (rest > 0) this.#note(`and ${plural(rest, "further cause")}`);
    if (this.#causes.others > 0) this.#note(`and ${this.#causes.others} of other causes`);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    endProgress(this.#context.io);
  }
}

export function countsText({ sent, replayed, failed, inDoubt, elsewhere }: EachCounts, broken: number): string {
  const parts = [`${sent} sent`, `${replayed} done before`, `${failed + broken} failed`, `${inDoubt} in doubt`];
  if (elsewhere > 0) parts.push(`${elsewhere} in other hands`);
  return parts.join(", ");
}

function rateText(rate: number): string {
  return rate >= 10 || rate === 0 ? `${Math.round(rate)}/s` : `${rate.toFixed(1)}/s`;
}
