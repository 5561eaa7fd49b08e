/**
 * F41: the error for a program whose steps differ from what a run has taken. What happened and what to do come first: the ledger
 * keeps the first 500 characters of an error. The lists come last.
 */
import { NevertwiceError } from "../core/errors.ts";
import type { RecordedStep } from "./step-records.ts";

/** A step as the program names it. */
export interface NamedStep {
  readonly name: string | null;
  readonly path: readonly string[];
}

/** A step that this call asked for: as the ledger names it, and as the program does. They differ where `renamed` says so. */
export interface AskedNames {
  readonly inLedger: NamedStep;
  readonly inProgram: NamedStep;
}

export interface Rename {
  readonly from: string;
  readonly to: string;
}

export interface ChangedSteps {
  readonly run: string;
  readonly version: number;
  /** The step that the program does not ask for where it was. */
  readonly missing: RecordedStep;
  /** What the program does instead. */
  readonly what: string;
  /** The one change of a name that would explain it. */
  readonly rename: Rename | undefined;
  /** What this call has run. */
  readonly ran: readonly string[];
  readonly recorded: readonly RecordedStep[];
  readonly asked: readonly AskedNames[];
}

const SHOWN = 8;

export function changedSteps(changed: ChangedSteps): NevertwiceError {
  const { run, version, missing, what, rename, ran } = changed;
  const where = `run ${run}${missing.path.map((branch) => ` → ${branch}`).join("")}`;
  const name = missing.name === null ? "another step" : JSON.stringify(missing.name);
  const nothing =
    ran.length === 0
      ? "Nothing was run."
      : `Nothing was run from there on (this call has run ${ran.slice(0, SHOWN).join(", ")}).`;
  const pair = rename === undefined ? '"old name": "new name"' : `${quoted(rename.from)}: ${quoted(rename.to)}`;
  const remedy = `If only a name of a step or a branch has changed, pass { renamed: { ${pair} } }. Otherwise bring the old ones back until it has ended, or begin anew on purpose with { version: ${version + 1} }, which runs all steps again.`;
  return new NevertwiceError(
    "KEY_CONFLICT",
    `${where}: step ${missing.place} of this run was ${name} (${missing.state}), and the program ${what}. ${nothing} ${remedy} Steps of a run under way must keep their names, their branches and their order. ${lists(changed)}`,
    { key: missing.key, outcome: { status: "conflict", key: missing.key, differs: ["step"] } },
  );
}

/** The branch that took the place of the one in which a step is missing, where there is only one that it can be. */
export function renamedBranch(
  missing: readonly string[],
  recorded: readonly (readonly string[])[],
  opened: readonly (readonly string[])[],
): Rename | undefined {
  const [known, asked] = [new Set(recorded.map(quoted)), new Set(opened.map(quoted))];
  const depth = missing.findIndex((_, i) => !asked.has(quoted(missing.slice(0, i + 1))));
  if (depth === -1) return undefined;
  const around = quoted(missing.slice(0, depth));
  const isBeside = (path: readonly string[]) => path.length === depth + 1 && quoted(path.slice(0, depth)) === around;
  const gone = recorded.filter((path) => isBeside(path) && !asked.has(quoted(path)));
  const added = opened.filter((path) => isBeside(path) && !known.has(quoted(path)));
  const [from, to] = [missing[depth], added[0]?.[depth]];
  if (gone.length !== 1 || added.length !== 1 || from === undefined || to === undefined) return undefined;
  return { from, to };
}

function lists({ recorded, asked }: ChangedSteps): string {
  const ordered = [...recorded].sort((a, b) => a.order - b.order || a.place - b.place);
  const before = ordered.map((step) => `${label(step)} (${step.state})`);
  const now = asked.map(({ inProgram }) => label(inProgram));
  let same = 0;
  while (same < ordered.length && same < asked.length && isSame(ordered[same], asked[same]?.inLedger)) same += 1;
  return `Recorded: ${excerpt(before, same)}. This call: ${excerpt(now, same)}.`;
}

function isSame(recorded: NamedStep | undefined, asked: NamedStep | undefined): boolean {
  return recorded !== undefined && asked !== undefined && label(recorded) === label(asked);
}

/** Around the first difference: a run may have thousands of steps. */
function excerpt(names: readonly string[], same: number): string {
  const from = Math.max(0, same - SHOWN / 2);
  const shown = names.slice(from, from + 2 * SHOWN);
  const left = names.length - from - shown.length;
  const parts = [...(from > 0 ? [`${from} before`] : []), ...shown, ...(left > 0 ? [`${left} more`] : [])];
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

export function label({ name, path }: NamedStep): string {
  return quoted([...path, name ?? "?"].join(" › "));
}

function quoted(value: unknown): string {
  return JSON.stringify(value);
}
