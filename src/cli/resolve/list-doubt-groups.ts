/** `ls --doubt --group`: how many doubts there are of each cause, and the command that settles them. */
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import type { DoubtQuery } from "../../engine/doubt-pages.ts";
import type { Context } from "../command.ts";
import { groupRows, settlingCommand } from "../ledger/doubt-group-table.ts";
import { type DoubtGroup, groupDoubts } from "../ledger/doubt-groups.ts";
import { nextByItself } from "../ledger/next-by-itself.ts";
import { ledgerJson } from "../ledger/open.ts";
import { actionAndStep } from "../ledger/standing.ts";
import { EXIT } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { oneLine, wrap } from "../term/text.ts";

const COMMANDS_SHOWN = 20;

export async function listDoubtGroups(context: Context, store: Store, query: DoubtQuery): Promise<number> {
  const { io, line, width } = context;
  const progress = (counted: number) => showProgress(io, `${plural(counted, "doubt")} counted`);
  const at = instantOf(store);
  let again = 0;
  const skips = (record: LedgerRecord) => {
    const isRunAgain = nextByItself(record, at) !== null;
    if (isRunAgain) again += 1;
    return isRunAgain;
  };
  const grouped = groupDoubts(store, query, { progress, skips }).finally(() => endProgress(io));
  const { groups, counted, beyond } = await grouped;
  if (context.args.on("json")) {
    const json = (group: DoubtGroup) => groupDocument(context, group);
    context.json({ ledger: ledgerJson(context.ledger()), counted, groups: groups.map(json), beyond, again });
    return EXIT.ok;
  }
  if (groups.length === 0) {
    line(again === 0 ? "Nothing is in doubt." : `Nothing has to be decided. ${againText(again)}`);
    return EXIT.ok;
  }
  for (const one of groupRows(context, groups, at.now)) line(one);
  if (beyond > 0) line(`… and ${plural(beyond, "doubt")} of still more causes, which were not told apart`);
  line();
  const how =
    "Ask the provider about the example of a group first. Then settle the group in one decision (--done, --not-done or --failed). Without --yes the command shows what would be settled, and changes nothing:";
  for (const one of wrap(how, width)) line(one);
  for (const group of groups.slice(0, COMMANDS_SHOWN)) {
    line();
    for (const one of wrap(`${plural(group.count, "doubt")}, ${actionAndStep(group)}, ${oneLine(group.error)}`, width))
      line(one);
    line(`  ${settlingCommand(context, group)}`);
  }
  if (again > 0) {
    line();
    for (const one of wrap(againText(again), width)) line(one);
  }
  return EXIT.ok;
}

function againText(again: number): string {
  const calls = again === 1 ? "its next call runs it again" : "their next calls run them again";
  return `Not counted: ${plural(again, "slot or run", "slots or runs")} not known to be done; ${calls}.`;
}

function groupDocument(context: Context, group: DoubtGroup) {
  const { id, action, step, error, count, since, example } = group;
  return { id, action, step, error, count, since, example: example.key, command: settlingCommand(context, group) };
}
