import { instantOf } from "../../core/store.ts";
import { type OnceMoreRequest, openRequests } from "../../engine/once-more.ts";
import type { Command, Context } from "../command.ts";
import { ledgerJson } from "../ledger/open.ts";
import { EXIT } from "../term/exit.ts";
import { relative, shortKey } from "../term/format.ts";
import { renderTable } from "../term/table.ts";
import { oneLine } from "../term/text.ts";

export const requests: Command = {
  name: "requests",
  summary: "what models ask to have run once more, for a person to decide",
  usage: [""],
  about:
    "A model that has the tool nevertwice_once_more may ask for one more run of a call that is done. Nothing runs until a person grants it: `nevertwice resend <key>` grants, with --deny it denies. A request is kept for 30 days.",
  flags: {},
  operands: 0,
  examples: [
    ["requests", "the oldest first"],
    ["requests --json | jq '.requests[].key'", "their keys"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  const tenant = context.args.text("tenant");
  const open = ledger.exists ? await openRequests(ledger.store, tenant, () => instantOf(ledger.store)) : [];
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(ledger), requests: open });
    return EXIT.ok;
  }
  if (!ledger.exists || open.length === 0) {
    context.line("No open requests.");
    return EXIT.ok;
  }
  tell(context, open, instantOf(ledger.store).now);
  return EXIT.ok;
}

function tell(context: Context, open: readonly OnceMoreRequest[], now: number): void {
  const columns = [
    { title: "key" },
    { title: "action", min: 10 },
    { title: "version", align: "right" as const },
    { title: "asked" },
    { title: "agent", min: 5 },
    { title: "reason", min: 10, wraps: true },
  ];
  const rows = open.map(({ key, action, version, at, agent, reason }) => [
    shortKey(key),
    oneLine(action),
    String(version),
    relative(at, now),
    oneLine(agent ?? ""),
    oneLine(reason),
  ]);
  for (const line of renderTable(columns, rows, context)) context.line(line);
  const [first] = open as readonly [OnceMoreRequest];
  context.line();
  context.line("Look, then decide:");
  context.line(`  ${context.suggest(`show ${shortKey(first.key)}`)}`);
  context.line(`  ${context.suggest(`resend ${shortKey(first.key)} --reason "…"`)}`);
  context.line(`  ${context.suggest(`resend ${shortKey(first.key)} --deny --reason "…"`)}`);
}
