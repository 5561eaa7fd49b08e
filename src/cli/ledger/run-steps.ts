/** The steps of a run as the ledger has them: read by the run's key, which is their scope. */
import type { Instant, LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";
import { type StepInput, stepAction } from "../../runs/step-records.ts";
import { ProblemError } from "../term/exit.ts";
import { age, shortKey } from "../term/format.ts";
import type { Paint } from "../term/paint.ts";
import { type Cell, renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";
import { paintState, remarkOf, standingOf } from "./standing.ts";

export const RUN_PREFIX = "run:";

export interface ListedStep {
  readonly name: string;
  readonly path: readonly string[];
  readonly place: number;
  readonly record: LedgerRecord;
}

// A person reads a screen or two of them; beyond this the rest is left out and said so.
const MOST_STEPS = 500;

export function runName({ action }: LedgerRecord): string | null {
  return action.startsWith(RUN_PREFIX) ? action.slice(RUN_PREFIX.length) : null;
}

export async function stepsOfRun(store: Store, run: LedgerRecord): Promise<ListedStep[]> {
  const name = runName(run);
  if (name === null) return [];
  const query = { scope: run.key, action: stepAction(name), tenant: run.tenant, limit: MOST_STEPS };
  const { items } = await store.list({ ...query, order: "oldest" });
  const steps = items.map(({ record }) => ({ record, ...inputOf(record) }));
  // By branch, then by place; a run without branches is one row.
  return steps.sort((a, b) => compare(a.path.join("\u0000"), b.path.join("\u0000")) || a.place - b.place);
}

// A run stops at its first doubt; only branches side by side can leave several.
const MOST_DOUBTS = 50;

/**
 * The steps in doubt that hold a run. Its own record says only that it has not ended: a call of it would be refused by
 * such a step until somebody settles it.
 */
export async function heldBy(store: Store, run: LedgerRecord, at: Instant): Promise<ListedStep[]> {
  const name = runName(run);
  const { lapsed, expired } = standingOf(run, at);
  const atRest = run.state === "failed" || run.state === "pending" || lapsed;
  if (name === null || !atRest || expired) return [];
  const query = { scope: run.key, action: stepAction(name), tenant: run.tenant, limit: MOST_DOUBTS };
  const { items } = await store.list({ ...query, states: ["unknown", "sent"], order: "oldest" });
  return items
    .filter(({ record }) => standingOf(record, at).inDoubt)
    .map(({ record }) => ({ record, ...inputOf(record) }));
}

/** The state that tables show for a run that such steps hold. */
export const HELD = "held";

export function heldWords(steps: readonly ListedStep[]): string {
  const names = steps.map(nameOf);
  return `waits for a decision on ${names.length === 1 ? "step" : "steps"} ${names.join(", ")}`;
}

const MOST_SETTLED = 10;

/** Below a table: how the steps that hold runs are settled. */
export function heldLines(suggest: Suggest, steps: readonly ListedStep[]): string[] {
  if (steps.length === 0) return [];
  const names = [...new Set(steps.map(nameOf))];
  const what = names.length === 1 ? `whether step ${names[0]} happened` : "which of these steps happened";
  const more =
    steps.length > MOST_SETTLED ? [`  and ${steps.length - MOST_SETTLED} more: ${suggest("ls --doubt")}`] : [];
  return [
    "",
    `Find out ${what}, then settle it with what it returned (--void if it returns nothing, --not-done if it did not happen):`,
    ...steps
      .slice(0, MOST_SETTLED)
      .map(({ record }) => `  ${suggest(`resolve ${shortKey(record.key)} --done --result '…' --reason '…'`)}`),
    ...more,
  ];
}

type Suggest = (line: string) => string;

/** The run itself is neither in doubt nor to be retried: the decision is about its step. Null: no step holds it. */
export function heldProblem(suggest: Suggest, steps: readonly ListedStep[]): ProblemError | null {
  if (steps.length === 0) return null;
  return new ProblemError(
    [`the run ${heldWords(steps)}. Nothing was changed.`, ...heldLines(suggest, steps).slice(1)].join("\n"),
  );
}

function nameOf({ name, path }: Pick<ListedStep, "name" | "path">): string {
  return oneLine([...path, name].join(" › "));
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function inputOf({ input }: LedgerRecord): { name: string; path: readonly string[]; place: number } {
  // Sealed: the order is not known, the steps still are.
  if (input === null || !("json" in input)) return { name: "(sealed)", path: [], place: 0 };
  const { step, path, place } = JSON.parse(input.json) as StepInput;
  return { name: step, path, place };
}

export function drawSteps(
  steps: readonly ListedStep[],
  at: Instant,
  layout: { width: number; paint: Paint },
): string[] {
  const columns = [
    { title: "" },
    { title: "step", min: 8 },
    { title: "state" },
    { title: "try", align: "right" as const },
    { title: "age", align: "right" as const },
    { title: "what", min: 8 },
  ];
  const rows = steps.map(({ name, path, record }): Cell[] => {
    const { label } = standingOf(record, at);
    return [
      { text: SIGNS[label.replace("*", "")] ?? "·", paint: paintState(label, layout.paint) },
      nameOf({ name, path }),
      { text: label, paint: paintState(label, layout.paint) },
      String(record.attempt),
      age(at.now - record.createdAt),
      remarkOf(record, at),
    ];
  });
  return renderTable(columns, rows, layout);
}

const SIGNS: Readonly<Record<string, string>> = {
  confirmed: "✓",
  failed: "✗",
  unknown: "?",
  claimed: "…",
  sent: "…",
  pending: "·",
};
