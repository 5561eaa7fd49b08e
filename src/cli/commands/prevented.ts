import type { Duration } from "../../core/duration.ts";
import { durationMs } from "../../core/duration.ts";
import type { PreventedCause } from "../../core/prevented.ts";
import { instantOf } from "../../core/store.ts";
import { type Prevented, readPrevented } from "../../engine/list-prevented.ts";
import type { Command, Context } from "../command.ts";
import { readInstant } from "../instant.ts";
import { ledgerJson, noLedgerYet } from "../ledger/open.ts";
import { EXIT, UsageError } from "../term/exit.ts";
import { plural, relative, shortKey } from "../term/format.ts";
import { type Column, renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";

export const prevented: Command = {
  name: "prevented",
  summary: "duplicates prevented, by action and cause",
  usage: ["[--since <7d>]"],
  about:
    'Calls that were answered from the ledger instead of being run, of the last 90 days. Tools that are guarded with mode: "observe" are counted as observed: their calls ran. Programs count in memory and write with their sweeps (every 30 seconds by default) and when they close: what a killed process had counted since is missing.',
  flags: {
    since: {
      value: "time",
      about: "how far back (24h, 7d), or from when on (2026-10-02T09:00:00Z); by whole hours",
    },
  },
  operands: 0,
  examples: [
    ["prevented --since 7d", "of the last week"],
    ["prevented --json | jq .prevented", "a number for a monitor"],
  ],
  run,
};

const CAUSES: Readonly<Record<PreventedCause, string>> = {
  done: "already done",
  "in-flight": "in progress",
  "in-doubt": "in doubt",
  conflict: "another input",
  refused: "refused for good",
  queued: "already queued",
  limit: "above its limit",
};

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  const asked = context.args.text("since");
  const none: Prevented = { prevented: 0, observed: 0, entries: [] };
  const now = ledger.exists ? instantOf(ledger.store).now : Date.now();
  const since = asked === undefined ? null : sinceOf(asked, now);
  const tenant = context.args.text("tenant");
  const found = ledger.exists
    ? await readPrevented(ledger.store, { since: since ?? 0, tenant }, instantOf(ledger.store))
    : none;
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(ledger), since, ...found });
    return EXIT.ok;
  }
  if (!ledger.exists) context.line(`Nothing was prevented: ${noLedgerYet(ledger)}.`);
  else tell(context, found, now);
  return EXIT.ok;
}

function sinceOf(text: string, now: number): number {
  const found = readInstant(text);
  if (found?.hasZone) return found.at;
  try {
    return now - durationMs(text as Duration, "--since");
  } catch {
    throw new UsageError(
      `--since ${oneLine(text)}: it takes a duration back from now, such as 7d, or an instant with its zone, such as 2026-01-15T09:00:00Z.`,
    );
  }
}

function tell(context: Context, { prevented: count, observed, entries }: Prevented, now: number): void {
  context.line(`${plural(count, "duplicate")} prevented${observed === 0 ? "" : `, ${observed} observed (they ran)`}`);
  if (entries.length === 0) return;
  const withTenant = entries.some(({ tenant }) => tenant !== "");
  const columns: Column[] = [
    ...(withTenant ? [{ title: "tenant", min: 6 }] : []),
    { title: "action", min: 10 },
    { title: "cause" },
    { title: "prevented", align: "right" },
    ...(observed === 0 ? [] : [{ title: "observed", align: "right" as const }]),
    { title: "first" },
    { title: "last" },
    { title: "latest key" },
  ];
  const rows = entries.map((entry) => [
    ...(withTenant ? [oneLine(entry.tenant)] : []),
    oneLine(entry.action),
    CAUSES[entry.cause],
    String(entry.prevented),
    ...(observed === 0 ? [] : [String(entry.observed)]),
    relative(entry.first, now),
    relative(entry.last, now),
    shortKey(entry.key),
  ]);
  context.line();
  for (const line of renderTable(columns, rows, context)) context.line(line);
}
