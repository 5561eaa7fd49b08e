/** The help texts, laid out from what the commands say about themselves. */

import type { Command, Context, Flags } from "../command.ts";
import { COMMON_FLAGS } from "../command-line.ts";
import { padEnd, wrap } from "./text.ts";

const EXIT_CODES: readonly (readonly [code: string, meaning: string])[] = [
  ["0", "ok (status: done)"],
  ["1", "a problem was found, or the ledger refused"],
  ["2", "the command line is wrong"],
  ["3", "the store is not available"],
  ["4", "each: stopped early, because so many inputs in a row failed"],
  ["10…15", "status, claim, enqueue, take: 10 in_flight, 11 queued, 12 failed, 13 unknown, 14 conflict, 15 absent"],
  ["16", "claim: done already"],
];

type Layout = Pick<Context, "paint" | "width">;

export function overview(commands: readonly Command[], layout: Layout): string[] {
  const { bold } = layout.paint;
  return [
    "nevertwice: look at the ledger, settle doubts, bring back what failed.",
    "",
    bold("Usage"),
    "  nevertwice <command> [flags]",
    "",
    bold("Commands"),
    ...pairs(
      [
        ...commands.map(({ name, summary }) => [name, summary] as const),
        ["help", "this text, or more about one command: nevertwice help resolve"],
      ],
      layout,
    ),
    "",
    bold("Flags of every command"),
    ...flagLines(COMMON_FLAGS, layout),
    "",
    bold("Exit codes"),
    ...pairs(EXIT_CODES, layout),
    "",
    ...wrap(
      "A key may be shortened to any unique beginning: nt1_ and 8 characters or more. Without --store the ledger is $NEVERTWICE_STORE, or else the embedded one of this project (.nevertwice/ledger.db).",
      Math.min(layout.width, 100),
    ),
  ];
}

export function commandHelp(command: Command, layout: Layout): string[] {
  const { bold, dim } = layout.paint;
  const own = Object.keys(command.flags).length > 0;
  return [
    `nevertwice ${command.name}: ${command.summary}`,
    "",
    bold("Usage"),
    ...command.usage.map((usage) => `  nevertwice ${command.name}${usage === "" ? "" : ` ${usage}`}`),
    "",
    ...command.about.split("\n").flatMap((text) => wrap(text, Math.min(layout.width, 100))),
    "",
    ...(own ? [bold("Flags"), ...flagLines(command.flags, layout), ""] : []),
    bold("Flags of every command"),
    ...flagLines(COMMON_FLAGS, layout),
    "",
    bold("Examples"),
    ...command.examples.flatMap(([line, what]) => [`  ${dim(`# ${what}`)}`, `  nevertwice ${line}`]),
  ];
}

function flagLines(flags: Flags, layout: Layout): string[] {
  return pairs(
    Object.entries(flags).map(([name, { value, about }]) => [
      `--${name}${value === undefined ? "" : ` <${value}>`}`,
      about,
    ]),
    layout,
  );
}

/** Two columns; the second one wraps under itself. */
function pairs(rows: readonly (readonly [string, string])[], { width }: Layout): string[] {
  const left = Math.max(...rows.map(([term]) => term.length + 2));
  return rows.flatMap(([term, text]) =>
    wrap(text, Math.max(30, Math.min(width, 110) - left - 2)).map(
      (line, i) => `  ${padEnd(i === 0 ? term : "", left)}${line}`,
    ),
  );
}
