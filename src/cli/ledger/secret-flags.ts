/** Secrets for the command: a flag names the environment variable that holds one, so that none shows in a list of processes. */
import { checkSecret } from "../../core/key/key.ts";
import { type EncryptKeys, sealer } from "../../core/seal.ts";
import { agentOf } from "../agent-flag.ts";
import type { Context, Flags } from "../command.ts";
import { asUsage, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

export const SECRET_FLAGS: Flags = {
  "secret-env": { value: "variable", about: "the environment variable with nevertwice({ secret })" },
  "encrypt-env": {
    value: "variable",
    about: "the environment variable with nevertwice({ encrypt }): a key, or several with commas, the newest first",
  },
};

/** What nevertwice() is made with, besides its store. */
export function ledgerOptions(context: Context): {
  tenant?: string;
  agent?: string;
  secret?: string;
  encrypt?: EncryptKeys;
} {
  const tenant = context.args.text("tenant");
  const [secret, encrypt] = [secretOf(context), encryptOf(context)];
  return {
    ...(tenant !== undefined && { tenant }),
    ...agentOf(context),
    ...(secret !== undefined && { secret }),
    ...(encrypt !== undefined && { encrypt }),
  };
}

export function secretOf(context: Context): string | undefined {
  const secret = variableOf(context, "secret-env");
  if (secret !== undefined) asUsage(() => checkSecret(secret));
  return secret;
}

/** Keys separated by commas, the newest first. */
export function encryptOf(context: Context): EncryptKeys | undefined {
  const value = variableOf(context, "encrypt-env");
  if (value === undefined) return undefined;
  const keys = value.split(",").map((key) => key.trim()) as [string, ...string[]];
  asUsage(() => sealer(keys));
  return keys;
}

function variableOf({ args, io }: Context, flag: "secret-env" | "encrypt-env"): string | undefined {
  const name = args.text(flag);
  if (name === undefined) return undefined;
  const value = io.env[name];
  if (value !== undefined && value.trim() !== "") return value;
  throw new UsageError(`--${flag} ${oneLine(name)}: that variable is not set.`);
}
