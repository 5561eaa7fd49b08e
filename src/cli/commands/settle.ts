import type { Command, Context } from "../command.ts";
import { ACTING_FLAGS, type Answer, jsonOf, operate, tokenOperand } from "../outside.ts";
import { EXIT, UsageError } from "../term/exit.ts";
import { shortKey } from "../term/format.ts";

export const settle: Command = {
  name: "settle",
  summary: "the outcome of an attempt that claim or take handed out",
  usage: [
    "<token> --as done [--result <json> | --result-text <text> | --result-file <file>]",
    "<token> --as <what> [--error <message>] [--retry-after <duration>]",
  ],
  about:
    "--as done: it happened; accepted also after the lease is over. not-sent: nothing was sent, and it may be tried again. not-begun: the same, and it does not count as a try. refused: it did not happen, and is not tried again by itself. rejected: refused for good. unknown: it may have happened. Exit code 0: recorded; settling the same again changes nothing. 1: the attempt is no longer yours.",
  flags: {
    as: { value: "what", about: "done, not-sent, not-begun, refused, rejected or unknown" },
    result: {
      value: "json",
      about: "with done: what a repeat gets, as JSON; left out, it has no result",
    },
    "result-text": { value: "text", about: "the same, as text: best the provider's id" },
    "result-file": { value: "file", about: "the same, JSON from a file" },
    error: { value: "message", about: "what went wrong" },
    "error-code": { value: "code", about: "its code" },
    "retry-after": {
      value: "duration",
      about: "with not-sent, not-begun: not before this long from now",
    },
    ...ACTING_FLAGS,
  },
  operands: 1,
  operand: "token",
  examples: [
    ['settle "$token" --as done --result-text "$message_id"', "it happened"],
    ['settle "$token" --as not-sent --error "connection refused"', "nothing was sent"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args } = context;
  const token = tokenOperand(context, "settle");
  if (!args.on("as"))
    throw new UsageError("say the outcome: --as done, not-sent, not-begun, refused, rejected or unknown.");
  const result = resultOf(context);
  const [message, code, retryAfter] = [args.text("error"), args.text("error-code"), args.text("retry-after")];
  if (code !== undefined && message === undefined) throw new UsageError("--error-code goes with --error.");
  const outcome = (await operate(context, "settle", {
    token,
    as: args.text("as"),
    ...(result !== undefined && { result: result.value }),
    ...(message !== undefined && { error: { message, ...(code !== undefined && { code }) } }),
    ...(retryAfter !== undefined && { retryAfter }),
  })) as Answer & { readonly warning?: string };
  if (outcome.warning !== undefined) context.note(outcome.warning);
  if (args.on("json")) context.json(outcome);
  else context.line(`${outcome.status}  ${shortKey(outcome.key)}`);
  return EXIT.ok;
}

function resultOf(context: Context): { readonly value: unknown } | undefined {
  const text = context.args.text("result-text");
  const json = jsonOf(context, "result", "result-file");
  if (text === undefined) return json;
  if (json !== undefined) throw new UsageError("give --result, --result-text or --result-file: one of them.");
  return { value: text };
}
