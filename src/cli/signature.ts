/** Who decides, and why: both are kept in the record's history, so neither may be missing. */
import type { Context } from "./command.ts";
import { UsageError } from "./term/exit.ts";

export const SIGNATURE_FLAGS = {
  by: { value: "who", about: "who decides: a person or a program (default: your user name)" },
  reason: { value: "why", about: "why, for the record's history; required" },
} as const;

/** `example`: the command line that would do, without the program's name. */
export function signatureOf(context: Context, example: string): { by: string; reason: string } {
  const by = (context.args.text("by") ?? context.io.user() ?? "").trim();
  if (by === "") throw new UsageError("say who decides, a person or a program: --by <who>.");
  const reason = (context.args.text("reason") ?? "").trim();
  if (reason === "") {
    throw new UsageError(
      `--reason is missing. It is kept in the ledger, for whoever asks later. For example:\n  ${context.suggest(example)}`,
    );
  }
  return { by, reason };
}
