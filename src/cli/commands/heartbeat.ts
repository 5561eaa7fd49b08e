import type { Command, Context } from "../command.ts";
import { operate, tokenOperand } from "../outside.ts";
import { EXIT } from "../term/exit.ts";

export const heartbeat: Command = {
  name: "heartbeat",
  summary: "keep the lease of an attempt that takes long",
  usage: ["<token>"],
  about:
    "The lease is counted from now on. Exit code 1: the attempt is no longer yours; stop, and make no further effect for it. If the effect happened, settle it as done.",
  flags: {},
  operands: 1,
  operand: "token",
  examples: [['heartbeat "$token"', "between two parts of a long piece of work"]],
  run: (context) => permission(context, "heartbeat"),
};

export const sent: Command = {
  name: "sent",
  summary: "the send mark of an attempt that was claimed with --mark manual",
  usage: ["<token>"],
  about:
    "Right before the effect. Until then a script that ends leaves no doubt: the next one may claim at once. Exit code 1: the attempt is no longer yours; nothing may be sent.",
  flags: {},
  operands: 1,
  operand: "token",
  examples: [['sent "$token" && curl -f https://api.example.com/send', "only where the mark was written"]],
  run: (context) => permission(context, "sent"),
};

async function permission(context: Context, name: "heartbeat" | "sent"): Promise<number> {
  const { leaseMs } = (await operate(context, name, { token: tokenOperand(context, name) })) as { leaseMs: number };
  if (context.args.on("json")) context.json({ leaseMs });
  return EXIT.ok;
}
