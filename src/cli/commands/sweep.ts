import type { Store } from "../../core/store.ts";
import { onlyOf } from "../../engine/tenancy.ts";
import { nevertwice } from "../../nevertwice.ts";
import type { Command, Context } from "../command.ts";
import { ledgerJson, noLedgerYet } from "../ledger/open.ts";
import { EXIT } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";

// Bounded passes, so that progress is shown and other programs write in between.
const REMOVED_A_PASS = 1_000;
// This many are a ledger of ten million.
const MOST_PASSES = 10_000;

export const sweep: Command = {
  name: "sweep",
  summary: "make silent holders visible as doubts, remove what is past its keep",
  usage: [""],
  about:
    "What the background sweep of a running program does, now and until nothing is left to do. Only confirmed and failed records past their keep are removed; doubts and waiting work never are. It runs no action and settles no doubt. With --tenant it keeps to the records of that tenant.",
  flags: {},
  operands: 0,
  examples: [
    ["sweep", "once, by hand"],
    ["sweep --json --store sqlite:/var/lib/app/ledger.db", "from cron"],
  ],
  run,
};

interface Counts {
  lapsed: number;
  removed: number;
  damaged: number;
}

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  const counts = ledger.exists ? await sweepAll(context, ledger.store) : { lapsed: 0, removed: 0, damaged: 0 };
  if (context.args.on("json")) context.json({ ledger: ledgerJson(ledger), ...counts });
  else if (!ledger.exists) context.line(`Nothing to sweep: ${noLedgerYet(ledger)}.`);
  else tell(context, counts);
  return EXIT.ok;
}

async function sweepAll({ io, args }: Context, store: Store): Promise<Counts> {
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  const counts = { lapsed: 0, removed: 0, damaged: 0 };
  const of = onlyOf(args.text("tenant"));
  const progress = () => showProgress(io, `${counts.lapsed} now in doubt, ${counts.removed} removed …`);
  try {
    // Silent holders first, until none is found; then what is past its keep, without looking for holders each time.
    for (let pass = 0; pass < MOST_PASSES; pass += 1) {
      const { lapsed, removed, damaged } = await nt.sweep(of);
      // The same ones are met at each pass.
      counts.damaged = Math.max(counts.damaged, damaged);
      counts.lapsed += lapsed;
      counts.removed += removed;
      if (lapsed === 0) break;
      progress();
    }
    for (let pass = 0; pass < MOST_PASSES; pass += 1) {
      const removed = await store.sweep({ limit: REMOVED_A_PASS, thorough: true, ...of });
      counts.removed += removed;
      if (removed === 0) break;
      progress();
    }
    return counts;
  } finally {
    endProgress(io);
  }
}

function tell(context: Context, { lapsed, removed, damaged }: Counts): void {
  const silent = plural(lapsed, "silent holder");
  context.line(lapsed === 0 ? "No holder has fallen silent." : `${silent}: now in doubt (sent → unknown).`);
  context.line(
    removed === 0
      ? "Nothing is past its keep."
      : `${plural(removed, "record past its keep", "records past their keep")}: removed.`,
  );
  if (damaged > 0)
    context.line(
      `${plural(damaged, "record")} could not be read, and ${damaged === 1 ? "was" : "were"} passed over. See: ${context.suggest("doctor")}`,
    );
  if (lapsed > 0) context.line(`\nSettle the doubts:\n  ${context.suggest("ls --doubt")}`);
}
