import { STATES } from "../../core/record.ts";
import { type ActionStats, instantOf, type LedgerStats } from "../../core/store.ts";
import { readPrevented } from "../../engine/list-prevented.ts";
import type { Command, Context } from "../command.ts";
import { countLedger, emptyStats } from "../ledger/counts.ts";
import { ledgerJson, noLedgerYet } from "../ledger/open.ts";
import { paintState } from "../ledger/standing.ts";
import { EXIT } from "../term/exit.ts";
import { moment, plural } from "../term/format.ts";
import { type Cell, type Column, renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";

export const stats: Command = {
  name: "stats",
  summary: "counts per action and state, the oldest doubt, the oldest waiting work",
  usage: [""],
  about:
    "Counts go by the state in the ledger's rows. A holder that fell silent is still counted as claimed or sent there, and once more in its own line.",
  flags: {},
  operands: 0,
  examples: [
    ["stats", "the whole ledger"],
    ["stats --json | jq .states.unknown", "a number for a monitor"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  const counts = ledger.exists ? await countLedger(ledger.store, context.args.text("tenant")) : emptyStats();
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(ledger), ...counts });
    return EXIT.ok;
  }
  context.line(
    ledger.exists
      ? `${plural(counts.total, "record")} in ${oneLine(ledger.name)}`
      : `No records: ${noLedgerYet(ledger)}.`,
  );
  if (!ledger.exists) return EXIT.ok;
  if (counts.total > 0) context.line();
  for (const line of counts.total === 0 ? [] : table(context, counts)) context.line(line);
  const now = ledger.store.now();
  const asked = { since: 0, tenant: context.args.text("tenant") };
  const { prevented } = await readPrevented(ledger.store, asked, instantOf(ledger.store));
  const notes = remarks(context, counts, now);
  if (prevented > 0) notes.push(`prevented       ${plural(prevented, "duplicate")}: ${context.suggest("prevented")}`);
  if (notes.length > 0) context.line();
  for (const line of notes) context.line(line);
  return EXIT.ok;
}

function table({ paint, width }: Context, counts: LedgerStats): string[] {
  const columns: Column[] = [
    { title: "action", min: 10 },
    ...[...STATES, "total"].map((title) => ({ title, align: "right" as const })),
  ];
  const row = ({ action, states, total }: Omit<ActionStats, "action"> & { action: Cell }): Cell[] => [
    action,
    ...STATES.map((state) => {
      const count = states[state];
      return { text: String(count), paint: count === 0 ? paint.dim : paintState(state, paint) };
    }),
    String(total),
  ];
  const actions = [...counts.actions].sort((a, b) => b.total - a.total || (a.action < b.action ? -1 : 1));
  const rows = actions.map((one) => row({ ...one, action: oneLine(one.action) }));
  const all = actions.length > 1 ? [row({ ...counts, action: { text: "all", paint: paint.bold } })] : [];
  return renderTable(columns, [...rows, ...all], { width, paint });
}

function remarks(context: Context, counts: LedgerStats, now: number): string[] {
  const lines: string[] = [];
  if (counts.oldestUnknownAt !== null) lines.push(`oldest doubt    since ${moment(counts.oldestUnknownAt, now)}`);
  if (counts.oldestPendingAt !== null) lines.push(`oldest pending  due ${moment(counts.oldestPendingAt, now)}`);
  if (counts.lapsed > 0)
    lines.push(
      `silent holders  ${counts.lapsed}: ${context.suggest("sweep")} makes doubts of those that had sent; the others are free for a worker or the next call`,
    );
  return lines;
}
