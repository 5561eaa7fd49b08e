/** `ls --doubt --group`: how many doubts there are of each cause, and the command that settles them. */
import { instantOf, type Store } from "../core/store.ts";
import type { DoubtQuery } from "../engine/doubt-pages.ts";
import type { Context } from "./command.ts";
import { groupRows, settlingCommand } from "./doubt-group-table.ts";
import { type DoubtGroup, groupDoubts } from "./doubt-groups.ts";
import { EXIT } from "./exit.ts";
import { plural } from "./format.ts";
import { ledgerJson } from "./ledger.ts";
import { endProgress, showProgress } from "./progress.ts";
import { oneLine, wrap } from "./text.ts";

const COMMANDS_SHOWN = 20;

export async function listDoubtGroups(context: Context, store: Store, query: DoubtQuery): Promise<number> {
  const { io, line, width } = context;
  const progress = (counted: number) => showProgress(io, `${plural(counted, "doubt")} counted`);
  const { groups, counted, beyond } = await groupDoubts(store, query, { progress }).finally(() => endProgress(io));
  if (context.args.on("json")) {
    const json = (group: DoubtGroup) => groupDocument(context, group);
    context.json({ ledger: ledgerJson(context.ledger()), counted, groups: groups.map(json), beyond });
    return EXIT.ok;
  }
  if (groups.length === 0) {
    line("Nothing is in doubt.");
    return EXIT.ok;
  }
  for (const one of groupRows(context, groups, instantOf(store).now)) line(one);
  if (beyond > 0) line(`… and ${plural(beyond, "doubt")} of still more causes, which were not told apart`);
  line();
  const how =
    "Ask the provider about the example of a group first. Then settle the group in one decision (--done, --not-done or --failed). Without --yes the command shows what would be settled, and changes nothing:";
  for (const one of wrap(how, width)) line(one);
  for (const group of groups.slice(0, COMMANDS_SHOWN)) {
    line();
    for (const one of wrap(`${plural(group.count, "doubt")}, ${oneLine(group.action)}, ${oneLine(group.error)}`, width))
      line(one);
    line(`  ${settlingCommand(context, group)}`);
  }
  return EXIT.ok;
}

function groupDocument(context: Context, group: DoubtGroup) {
  const { id, action, error, count, since, example } = group;
  return { id, action, error, count, since, example: example.key, command: settlingCommand(context, group) };
}
