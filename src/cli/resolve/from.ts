/** `resolve --from`: a decision for each of many doubts, from a file of JSON Lines. Shown first; done with --yes. */
import { createReadStream, statSync } from "node:fs";
import { resolve as resolvePath } from "node:path";
import { isOfAllRecords } from "../../core/damaged-record.ts";
import { doubtBegan, kindOfDoubt } from "../../core/doubt-cause.ts";
import { messageOf } from "../../core/errors.ts";
import { lacksResult } from "../../core/kept-result.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store, type Stored } from "../../core/store.ts";
import type { Engine } from "../../engine/engine.ts";
import { type Resolution, SETTLED_AS } from "../../engine/operate.ts";
import { settleListed } from "../../engine/resolve-all.ts";
import { nevertwice, servicesOf } from "../../nevertwice.ts";
import type { Context } from "../command.ts";
import { instantFlag } from "../instant.ts";
import { jsonLines } from "../json-lines.ts";
import { keptFilters } from "../ledger/doubt-group-table.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { actionAndStep, standingOf } from "../ledger/standing.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { localIso, plural, shellWord, shortKey } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";
import { type BadLine, type Decision, readDecision } from "./decision-lines.ts";
import { objectionTo } from "./objection.ts";

const OTHER_WAYS = ["done", "not-done", "failed", "result", "result-file", "group", "all", "error", "action", "scope"];
const FILTERS = ["agent", "since", "limit"];

/** `refuseClearText` throws where a result must not be stored by the command. */
type RefuseClearText = (record: LedgerRecord, result: { value: unknown } | undefined) => void;

export async function resolveFrom(context: Context, refuseClearText: RefuseClearText): Promise<number> {
  const { args, io } = context;
  if (args.operands.length > 0)
    throw new UsageError("give a key or --from, not both: a line of the file names its key.");
  for (const flag of [...OTHER_WAYS, ...FILTERS]) {
    if (args.on(flag))
      throw new UsageError(`--${flag} does not go with --from: each line of the file says it by itself.`);
  }
  const by = (args.text("by") ?? io.user() ?? "").trim();
  if (by === "" && args.on("yes")) throw new UsageError("say who decides, a person or a program: --by <who>.");
  const file = new DecisionFile(context);
  const store = requireStore(context);
  const applying = new Applying(context, store, file.decidedBefore(context, store), refuseClearText);
  const missing = {
    by: by || "somebody",
    reason: (args.text("reason") ?? "").trim() || (args.on("yes") ? "" : NO_REASON),
  };
  try {
    for await (const line of jsonLines(file.chunks())) {
      await applying.take(readDecision(line, missing));
      if (applying.stopped !== null) break;
    }
    await applying.flush();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    await applying.flush();
    applying.stopped ??= `${error.message}, and nothing behind it was read`;
  } finally {
    endProgress(io);
  }
  return applying.finish(file.name);
}

// File systems keep the time of the last tick, some only even seconds.
const TIMESTAMP_SLACK_MS = 2_000;

class DecisionFile {
  readonly name: string;
  readonly #path: string;
  readonly #writtenAt: number;

  constructor({ args, io }: Context) {
    this.name = args.text("from") ?? "";
    this.#path = resolvePath(io.cwd, this.name);
    const stat = statSync(this.#path, { throwIfNoEntry: false });
    if (stat === undefined || !stat.isFile())
      throw new UsageError(
        `--from ${oneLine(this.name)}: there is no such file. It takes JSON Lines: {"key":"nt1_…","as":"done"}`,
      );
    this.#writtenAt = stat.mtimeMs;
  }

  chunks(): AsyncIterable<Uint8Array> {
    return createReadStream(this.#path);
  }

  /** A doubt that began after the file was written is none of those it decides: it was settled before, and tried again. */
  decidedBefore({ args }: Context, store: Store): number {
    const { now } = instantOf(store);
    // On the ledger's clock, which may be another host's.
    const written = this.#writtenAt + (now - Date.now());
    return Math.min(instantFlag(args, "before") ?? written + TIMESTAMP_SLACK_MS, now + 1);
  }
}

interface Group {
  readonly as: string;
  readonly action: string;
  readonly step: string | null;
  readonly error: string;
  count: number;
}

// Of a line in a dry run, which needs none.
const NO_REASON = "…";
const AT_ONCE = 20;
const MOST_DECIDED = 100_000;
const MOST_GROUPS = 1_000;
const MOST_REFUSED = 1_000;
const SHOWN = 20;
const DOWN_IN_A_ROW = 3;

class Applying {
  readonly #context: Context;
  readonly #store: Store;
  readonly #engine: Engine;
  readonly #before: number;
  readonly #refuseClearText: RefuseClearText;
  readonly #dryRun: boolean;
  readonly #groups = new Map<string, Group>();
  readonly #refused: BadLine[] = [];
  readonly #notes: BadLine[] = [];
  /** In a dry run nothing is settled that would show an earlier line about the same record. */
  readonly #decided = new Map<string, string>();
  #batch: Decision[] = [];
  #lines = 0;
  #lacksReason = false;
  #settled = 0;
  #unchanged = 0;
  #refusedCount = 0;
  #downInARow = 0;
  /** Why it ended early. */
  stopped: string | null = null;

  constructor(context: Context, store: Store, before: number, refuseClearText: RefuseClearText) {
    this.#context = context;
    this.#store = store;
    this.#engine = servicesOf(nevertwice({ store, sweep: false })).engine;
    this.#before = before;
    this.#refuseClearText = refuseClearText;
    this.#dryRun = !context.args.on("yes");
  }

  async take(line: Decision | BadLine): Promise<void> {
    this.#lines += 1;
    if (!("resolution" in line)) {
      this.#refuse(line);
      return;
    }
    // Two decisions about one record come one after the other.
    if (this.#batch.length >= AT_ONCE || this.#batch.some(({ key }) => key === line.key)) await this.flush();
    this.#batch.push(line);
  }

  async flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    if (this.stopped !== null) return;
    await Promise.all(batch.map((decision) => this.#apply(decision)));
    showProgress(this.#context.io, `${plural(this.#lines, "decision")} ${this.#dryRun ? "read" : "applied"}`);
  }

  async #apply(decision: Decision): Promise<void> {
    const { line, key } = decision;
    try {
      const stored = await this.#engine.find(key, this.#context.args.text("tenant") ?? "");
      this.#downInARow = 0;
      const verdict = stored === null ? "there is no record with this key" : this.#judge(decision, stored);
      if (verdict === "unchanged") this.#unchanged += 1;
      else if (verdict !== null || stored === null) this.#refuse({ line, key, why: verdict ?? "" });
      else await this.#settle(decision, stored);
    } catch (error) {
      this.#fail({ line, key, why: messageOf(error) }, error);
    }
  }

  /** Null: to be settled. "unchanged", or why not. */
  #judge({ resolution }: Decision, { record }: Stored): string | null {
    const at = instantOf(this.#store);
    const { as } = resolution;
    const before = appliedAt(record, resolution);
    if (!standingOf(record, at).inDoubt && !(as === "done" && "result" in resolution && lacksResult(record))) {
      if (before !== null) return "unchanged";
      if (record.state === SETTLED_AS[as])
        return "result" in resolution
          ? `the record is ${record.state} already: its result was left as it is, and this one was not stored`
          : "unchanged";
      return `the record is ${record.state}, and not in doubt any more: "${as}" was not applied`;
    }
    if (before !== null && record.state !== "confirmed")
      return `this decision was applied at ${localIso(before)}. The record was tried again, and is in doubt again: decide anew, with another reason`;
    if (record.state !== "confirmed" && doubtBegan(record) >= this.#before)
      return `the record came into doubt at ${localIso(doubtBegan(record))}, after the decision was made (${localIso(this.#before)}): look at it again. If the decision is about this doubt, say when it was made: --before <time>`;
    const problem = objectionTo(record, as, "result" in resolution);
    if (problem !== null) return problem;
    try {
      this.#refuseClearText(record, "result" in resolution ? { value: resolution.result } : undefined);
    } catch (error) {
      return messageOf(error);
    }
    return null;
  }

  async #settle({ line, key, resolution }: Decision, stored: Stored): Promise<void> {
    const other = this.#decided.get(stored.record.key);
    if (other === resolution.as) {
      this.#unchanged += 1;
      return;
    }
    if (other !== undefined)
      return this.#refuse({ line, key, why: `an earlier line decides "${other}" about this record` });
    if (this.#dryRun && this.#decided.size < MOST_DECIDED) this.#decided.set(stored.record.key, resolution.as);
    const { end, why, error, now } = await settleListed(this.#engine, stored, this.#dryRun ? null : resolution);
    if (end === "refused") return this.#fail({ line, key, why }, error);
    if (end === "already") {
      this.#unchanged += 1;
      return;
    }
    this.#settled += 1;
    this.#lacksReason ||= resolution.reason === NO_REASON;
    const omitted =
      "result" in resolution && now?.result !== undefined && now.result !== null && "omitted" in now.result
        ? now.result.omitted
        : null;
    if (omitted !== null) this.#notes.push({ line, key, why: `settled, but its result was not stored: ${omitted}` });
    const { action, step, error: cause } = kindOfDoubt(stored.record);
    const id = JSON.stringify([resolution.as, action, step, cause]);
    const known = this.#groups.get(id);
    if (known !== undefined) known.count += 1;
    else if (this.#groups.size < MOST_GROUPS)
      this.#groups.set(id, { as: resolution.as, action, step, error: cause, count: 1 });
  }

  #fail(bad: BadLine, error: unknown): void {
    this.#refuse(bad);
    this.#downInARow = isOfAllRecords(error) ? this.#downInARow + 1 : 0;
    if (this.#downInARow >= DOWN_IN_A_ROW) this.stopped ??= bad.why;
  }

  #refuse(bad: BadLine): void {
    this.#refusedCount += 1;
    if (this.#refused.length < MOST_REFUSED) this.#refused.push(bad);
  }

  finish(name: string): number {
    const [dryRun, stopped] = [this.#dryRun, this.stopped];
    const groups = [...this.#groups.values()].sort((a, b) => b.count - a.count);
    const refused = this.#refused.sort((a, b) => a.line - b.line);
    const down = stopped !== null && this.#downInARow >= DOWN_IN_A_ROW;
    const code = down ? EXIT.unavailable : this.#refusedCount > 0 || stopped !== null ? EXIT.problem : EXIT.ok;
    if (this.#context.args.on("json")) {
      const counts = { lines: this.#lines, settled: this.#settled, unchanged: this.#unchanged };
      const bad = { refused, refusedCount: this.#refusedCount, notes: this.#notes };
      this.#context.json({
        ledger: ledgerJson(this.#context.ledger()),
        from: name,
        dryRun,
        ...counts,
        groups,
        ...bad,
        stopped,
      });
      return code;
    }
    if (this.#lines === 0) throw new ProblemError(`${oneLine(name)} has no decisions in it.`);
    this.#tell(name, groups, refused);
    return code;
  }

  #tell(name: string, groups: readonly Group[], refused: readonly BadLine[]): void {
    const { line, note, paint, width, suggest } = this.#context;
    if (groups.length > 0) {
      const columns = [
        { title: "doubts", align: "right" as const },
        { title: "as" },
        { title: "action", min: 8 },
        { title: "cause", min: 16 },
      ];
      const rows = groups
        .slice(0, SHOWN)
        .map((group) => [String(group.count), group.as, actionAndStep(group), oneLine(group.error)]);
      for (const one of renderTable(columns, rows, { width, paint })) line(one);
      if (groups.length > SHOWN) line(`… and ${plural(groups.length - SHOWN, "further cause")}`);
      line();
    }
    const of = `of ${plural(this.#lines, "decision")} in ${oneLine(name)}`;
    if (this.#dryRun) line(`${this.#settled} ${of} would be applied. Nothing was changed.`);
    else
      line(
        this.#settled === 0
          ? `Nothing was changed by the ${of.slice(3)}.`
          : `${this.#settled} ${of} ${were(this.#settled)} applied.`,
      );
    if (this.#unchanged > 0)
      line(`${this.#unchanged} of them: the record was settled the same way before, and stays as it is.`);
    if (this.#refusedCount > 0)
      line(
        `${this.#refusedCount} of them ${this.#dryRun ? "would not be" : `${were(this.#refusedCount)} not`} applied.`,
      );
    for (const one of [...refused.slice(0, SHOWN), ...this.#notes.slice(0, SHOWN)])
      note(`line ${one.line}${one.key === undefined ? "" : ` (${oneLine(shortKey(one.key))})`}: ${oneLine(one.why)}`);
    if (this.#refusedCount > SHOWN)
      note(`and ${this.#refusedCount - SHOWN} more that were not applied; --json lists up to ${MOST_REFUSED}`);
    if (this.stopped !== null) note(`The rest is as it was: ${oneLine(this.stopped)}`);
    if (!this.#dryRun || this.#settled === 0) return;
    const kept = keptFilters(this.#context, ["tenant", "before", "by", "reason"]);
    if (this.#lacksReason) kept.push("--reason '…'");
    line("Apply them:");
    line(`  ${suggest(["resolve", `--from ${shellWord(name)}`, ...kept, "--yes"].join(" "))}`);
  }
}

const were = (count: number) => (count === 1 ? "was" : "were");

/** When this very decision was written down; null: it was not, as far as the history goes back. */
function appliedAt({ history }: LedgerRecord, { as, by, reason }: Resolution<unknown>): number | null {
  const entry = history.findLast((one) => one.event === `resolved-${as}` && one.by === by && one.reason === reason);
  return entry?.at ?? null;
}
