/** Groups of doubts as a table, and the command that settles one. */
import type { Context } from "../command.ts";
import { age, plural, shellWord, shortKey } from "../term/format.ts";
import { renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";
import type { DoubtGroup } from "./doubt-groups.ts";
import { actionAndStep } from "./standing.ts";

const SHOWN = 20;

export function groupRows({ paint, width }: Context, groups: readonly DoubtGroup[], now: number): string[] {
  const rows = groups
    .slice(0, SHOWN)
    .map((group) => [
      String(group.count),
      actionAndStep(group),
      age(now - group.since),
      shortKey(group.example.key),
      oneLine(group.error),
    ]);
  const columns = [
    { title: "doubts", align: "right" as const },
    { title: "action", min: 8 },
    { title: "oldest", align: "right" as const },
    { title: "example" },
    { title: "cause", min: 16 },
  ];
  const more = groups.slice(SHOWN).reduce((sum, { count }) => sum + count, 0);
  const rest =
    more === 0 ? [] : [`… and ${plural(more, "doubt")} of ${plural(groups.length - SHOWN, "further cause")}`];
  return [...renderTable(columns, rows, { width, paint }), ...rest];
}

/** Filters of this call that a decision about what it showed must have too. */
export function keptFilters({ args }: Context, flags: readonly string[]): string[] {
  return flags.flatMap((flag) => (args.on(flag) ? [`--${flag} ${shellWord(args.text(flag) ?? "")}`] : []));
}

/** By its text, which says what is decided; by its id where the text cannot be copied as it is, or would select other steps too. */
export function settlingCommand(context: Context, { id, action, step, error, isAlone, example }: DoubtGroup): string {
  const kept = keptFilters(context, ["agent", "scope", "tenant"]);
  if (isAlone) return context.suggest(`resolve ${shortKey(example.key)} --not-done --reason '…'`);
  const isCopied = step === null && [action, error].every((text) => oneLine(text) === text && text.trim() !== "");
  const which = isCopied ? `--all --action ${shellWord(action)} --error ${shellWord(error)}` : `--group ${id}`;
  return context.suggest(["resolve", which, "--not-done", ...kept].join(" "));
}
