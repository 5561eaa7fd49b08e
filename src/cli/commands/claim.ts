import type { Command, Context } from "../command.ts";
import { type Answer, CLAIM_FLAGS, INTENT_FLAGS, intentOf, operate, termsOf } from "../outside.ts";
import { EXIT, exitOfClaim } from "../term/exit.ts";
import { shortKey } from "../term/format.ts";
import { oneLine } from "../term/text.ts";

const MOST_WORDS = 65;

export const claim: Command = {
  name: "claim",
  summary: "ask whether a script may act now: prints the token of the attempt, or says why not",
  usage: ["<action> <part>… [flags]", "<action> --parts <json> [flags]"],
  about:
    "Exit code 0: the intent is claimed, its token is on stdout, and the script performs the effect now and then settles it. 16: it is done already. 10, 11, 12, 13, 14: in flight, queued, failed for good, in doubt, or another input under the same key. In all these cases nothing is to be done, and stdout is empty (--json has the outcome). Words are texts: the key of 7 as a number is named with --parts '[7]'. A script that ends without settling leaves a doubt when its lease is over; it is not run again by itself.",
  flags: { ...INTENT_FLAGS, ...CLAIM_FLAGS },
  operands: MOST_WORDS,
  operand: "action",
  examples: [
    ['claim send_invoice "$id"', "the token, and exit code 0, where the script is to send it"],
    [`claim send_invoice --parts '[7]' --json`, "with a number as part, and the whole answer as JSON"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const answer = (await operate(context, "claim", { ...intentOf(context, "claim"), ...termsOf(context) })) as Answer;
  if (context.args.on("json")) context.json(answer);
  else if (answer.status === "claimed") context.line(answer.token);
  else context.note(`nothing to do: ${wordsOf(context, answer)}`);
  return answer.status === "claimed" ? EXIT.ok : exitOfClaim(answer.status);
}

function wordsOf(context: Context, answer: Exclude<Answer, { status: "claimed" }>): string {
  const show = context.suggest(`show ${shortKey(answer.key)}`);
  switch (answer.status) {
    case "done":
      return `it is done already, by attempt ${answer.attempt}.`;
    case "in_flight":
      return `another attempt is under way. See: ${show}`;
    case "queued":
      return `it is queued, due at ${new Date(answer.dueAt).toISOString()}; a worker or take runs it.`;
    case "failed":
      return `it was refused for good; with a corrected input it may be claimed. See: ${show}`;
    case "unknown":
      return `attempt ${answer.attempt} may have happened: ${oneLine(answer.why)}.${otherInput(answer.differs)} Look, and settle it: ${show}`;
    case "conflict":
      return `the same key was used with another input (differs in: ${answer.differs.map(oneLine).join(", ")}). See: ${show}`;
    case "absent":
      return "nothing is known about it.";
  }
}

function otherInput(differs: readonly string[] = []): string {
  return differs.length === 0
    ? ""
    : ` This input differs in: ${differs.map(oneLine).join(", ")}; it is not to be sent.`;
}
