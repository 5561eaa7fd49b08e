import type { ClaimedAttempt } from "../../serve/attempts.ts";
import type { Command, Context } from "../command.ts";
import { ACTING_FLAGS, CLAIM_FLAGS, operate, termsOf } from "../outside.ts";
import { EXIT, exitOfStatus, UsageError } from "../term/exit.ts";

const MOST_ACTIONS = 64;

export const take: Command = {
  name: "take",
  summary: "take queued work that is due, for a script to run",
  usage: ["<action>… [--limit <n>] [--wait <duration>] [flags]"],
  about:
    "Prints one JSON object per line for each piece of work: token, key, action, input, attempt, leaseMs. The script performs the effect and settles the token. Exit code 0: there is work; 15: none is due. Taken work counts as sent: a script that ends without settling leaves a doubt (--mark manual: from `nevertwice sent` on).",
  flags: {
    limit: { value: "n", about: "at most this many, default: 1" },
    ...CLAIM_FLAGS,
    ...ACTING_FLAGS,
  },
  operands: MOST_ACTIONS,
  operand: "action",
  examples: [
    ["take send_welcome", "one piece of work, as JSON"],
    ["take send_welcome rebuild --limit 10 --wait 30s", "up to ten, waiting for half a minute"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args } = context;
  if (args.operands.length === 0)
    throw new UsageError("take needs the actions whose queued work is taken: nevertwice take send_welcome");
  const limit = args.count("limit");
  const { work } = (await operate(context, "take", {
    actions: args.operands,
    ...(limit !== undefined && { limit }),
    ...termsOf(context),
  })) as { readonly work: readonly ClaimedAttempt[] };
  if (args.on("json")) context.json({ work });
  else for (const one of work) context.line(JSON.stringify(one));
  return work.length > 0 ? EXIT.ok : exitOfStatus("absent");
}
