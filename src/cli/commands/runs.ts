import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import { onlyOf } from "../../engine/tenancy.ts";
import { runAction } from "../../runs/run.ts";
import type { Command, Context } from "../command.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { recordJson } from "../ledger/record-json.ts";
import {
  HELD,
  heldBy,
  heldLines,
  heldWords,
  type ListedStep,
  RUN_PREFIX,
  runName,
  stepsOfRun,
} from "../ledger/run-steps.ts";
import { paintState, remarkOf, standingOf } from "../ledger/standing.ts";
import { EXIT } from "../term/exit.ts";
import { age, shortKey } from "../term/format.ts";
import { renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";

const DEFAULT_LIMIT = 20;
const LARGEST_LIMIT = 200;

export const runs: Command = {
  name: "runs",
  summary: "multi-step runs, how far each has come, and where it stopped",
  usage: ["[<name>] [--limit <n>]"],
  about:
    "The newest runs of nt.run(), all of them or those of one name. `nevertwice show <key>` draws the steps of one. A run that failed is taken up where it stopped by the next call of the program.",
  flags: {
    limit: {
      value: "n",
      about: `at most this many (default ${DEFAULT_LIMIT}, up to ${LARGEST_LIMIT})`,
    },
  },
  operands: 1,
  operand: "name",
  examples: [
    ["runs", "the last 20 runs"],
    ["runs onboard-lead --json | jq '.runs[] | select(.status != \"done\")'", "what has not ended"],
  ],
  run,
};

interface ListedRun {
  readonly record: LedgerRecord;
  readonly steps: readonly ListedStep[];
  /** The steps in doubt that keep it from going on. */
  readonly holding: readonly ListedStep[];
}

async function run(context: Context): Promise<number> {
  const store = requireStore(context);
  const limit = Math.min(context.args.count("limit") ?? DEFAULT_LIMIT, LARGEST_LIMIT);
  const found = await newest(store, context.args.operands[0], context.args.text("tenant"), limit);
  const at = instantOf(store);
  if (context.args.on("json")) {
    const document = found.map(({ record, steps, holding }) => ({
      ...recordJson(record, at),
      run: runName(record),
      id: idOf(record),
      ...(holding.length > 0 && { heldBy: holding.map(({ record: step }) => step.key) }),
      steps: steps.map(({ name, path, place, record: step }) => ({ step: name, path, place, ...recordJson(step, at) })),
    }));
    context.json({ ledger: ledgerJson(context.ledger()), runs: document });
    return EXIT.ok;
  }
  if (found.length === 0) {
    context.line("No run fits.");
    return EXIT.ok;
  }
  for (const line of table(context, found, store)) context.line(line);
  const holding = found.flatMap((one) => one.holding);
  for (const line of heldLines(context.suggest, holding)) context.line(line);
  const [stopped] = found.filter(({ record }) => record.state !== "confirmed");
  if (stopped !== undefined)
    context.line(`\nSee its steps:\n  ${context.suggest(`show ${shortKey(stopped.record.key)}`)}`);
  return EXIT.ok;
}

async function newest(
  store: Store,
  name: string | undefined,
  tenant: string | undefined,
  limit: number,
): Promise<ListedRun[]> {
  const names =
    name === undefined
      ? (await store.stats(onlyOf(tenant))).actions
          .map(({ action }) => action)
          .filter((action) => action.startsWith(RUN_PREFIX))
      : [runAction(name)];
  const pages = [];
  for (const action of names) pages.push(await store.list({ action, limit, ...onlyOf(tenant) }));
  const records = pages.flatMap(({ items }) => items.map(({ record }) => record));
  records.sort((a, b) => b.createdAt - a.createdAt);
  const listed: ListedRun[] = [];
  for (const record of records.slice(0, limit)) {
    const holding = await heldBy(store, record, instantOf(store));
    listed.push({ record, steps: await stepsOfRun(store, record), holding });
  }
  return listed;
}

function table(context: Context, found: readonly ListedRun[], store: Store): string[] {
  const { paint, width } = context;
  const at = instantOf(store);
  const columns = [
    { title: "key" },
    { title: "run", min: 8 },
    { title: "id", min: 6 },
    { title: "state" },
    { title: "try", align: "right" as const },
    { title: "age", align: "right" as const },
    { title: "steps", min: 10 },
  ];
  const rows = found.map(({ record, steps, holding }) => {
    const label = holding.length > 0 ? HELD : standingOf(record, at).label;
    return [
      shortKey(record.key),
      oneLine(`${runName(record)}${record.version === 1 ? "" : ` v${record.version}`}`),
      oneLine(idOf(record)),
      { text: label, paint: paintState(label, paint) },
      String(record.attempt),
      age(at.now - record.createdAt),
      progress(record, steps, holding) ?? remarkOf(record, at),
    ];
  });
  return renderTable(columns, rows, { width, paint });
}

function progress(record: LedgerRecord, steps: readonly ListedStep[], holding: readonly ListedStep[]): string | null {
  if (steps.length === 0) return null;
  const done = steps.filter((step) => step.record.state === "confirmed");
  if (holding.length > 0) return `${done.length} done, ${heldWords(holding)}`;
  const stopped = steps.find((step) => step.record.state !== "confirmed");
  const where = stopped === undefined || record.state === "confirmed" ? "" : `, at ${oneLine(stopped.name)}`;
  return `${done.length} done${where}`;
}

function idOf({ input }: LedgerRecord): string {
  if (input === null || !("json" in input)) return "(sealed)";
  const { id } = JSON.parse(input.json) as { id?: unknown };
  return typeof id === "string" ? id : JSON.stringify(id);
}
