import type { Command, Context } from "../command.ts";
import { type Answer, INTENT_FLAGS, intentOf, operate } from "../outside.ts";
import { EXIT, exitOfStatus } from "../term/exit.ts";

const MOST_WORDS = 65;

export const enqueue: Command = {
  name: "enqueue",
  summary: "record an intent for a worker, or for take; ten times, it is there once",
  usage: ["<action> <part>… [--input <json>] [flags]", "<action> --parts <json> [--input <json>] [flags]"],
  about:
    "Prints the key. Exit code 0: it is recorded, or was before (queued, under way or done). 12, 13, 14: it was refused for good, is in doubt, or was recorded with another input.",
  flags: {
    ...INTENT_FLAGS,
    "run-at": { value: "time", about: "not before this: 2026-01-15T09:00:00Z" },
    delay: { value: "duration", about: "not before this long from now" },
    expires: { value: "when", about: "stale after this: a duration from when it is due, or a time" },
    priority: { value: "n", about: "0 to 9: ahead of work due up to this many minutes before it" },
    order: { value: "name", about: "intents of one action and one order run one after the other" },
  },
  operands: MOST_WORDS,
  operand: "action",
  examples: [
    [`enqueue send_welcome user-7 --input '{"to":"a@example.com"}'`, "for a worker"],
    ["enqueue rebuild site-1 --delay 10m", "in ten minutes"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args } = context;
  const given = (flag: string, name = flag) => (args.on(flag) ? { [name]: args.text(flag) } : {});
  const outcome = (await operate(context, "enqueue", {
    input: null,
    ...intentOf(context, "enqueue"),
    ...given("run-at", "runAt"),
    ...given("delay"),
    ...given("expires"),
    ...given("order"),
    ...(args.on("priority") && { priority: Number(args.text("priority")) }),
  })) as Exclude<Answer, { status: "claimed" }>;
  if (args.on("json")) context.json(outcome);
  else context.line(outcome.key);
  const { status } = outcome;
  if (status === "queued" || status === "in_flight" || status === "done") return EXIT.ok;
  if (!args.on("json")) context.note(`${status}: nothing was queued. See: ${context.suggest(`show ${outcome.key}`)}`);
  return exitOfStatus(status);
}
