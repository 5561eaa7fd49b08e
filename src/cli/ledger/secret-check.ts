/**
 * Without the programs' secret every key made here would be another intent's, and nobody would notice. With a secret, no
 * digest of a stored input is the plain one: where that is so for all records that can be looked at, the command asks.
 */
import { isOfAllRecords } from "../../core/damaged-record.ts";
import { printInput } from "../../core/key/fingerprint.ts";
import { isNote } from "../../core/note.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { ActionServices } from "../../engine/action.ts";
import { onlyOf } from "../../engine/tenancy.ts";
import type { Flags } from "../command.ts";
import { ProblemError, UsageError } from "../term/exit.ts";

export const NO_SECRET_FLAG: Flags = {
  "no-secret": { about: "the programs use no secret, where the records look as if they did" },
};

const LOOKED_AT = 200;
const LEAST = 3;

/** Also finds out whether the ledger can be used at all: its errors are those of the store. */
export async function checkLedger(
  { engine, defaults }: ActionServices,
  { noSecret }: { readonly noSecret: boolean },
): Promise<void> {
  const { secret, confinedTo } = defaults;
  if (noSecret && secret !== undefined)
    throw new UsageError("give one of these, since they contradict each other: --secret-env, --no-secret");
  const { items } = await engine.services.ledger.list({ limit: LOOKED_AT, ...onlyOf(confinedTo) });
  if (noSecret) return;
  const made = items.map(({ record }) => isMadeWith(record, secret)).filter((known) => known !== null);
  if (made.length < LEAST || made.includes(true)) return;
  throw new ProblemError(
    secret === undefined
      ? "the records of this ledger seem to be made with a secret: keys made here without it would name other intents, and effects could happen twice. Nothing was changed. Name the variable with what the programs pass as nevertwice({ secret }) by --secret-env; if they pass none, say so: --no-secret"
      : "the records of this ledger seem to be made without this secret: keys made here with it would name other intents, and effects could happen twice. Nothing was changed. Give the secret that the programs pass as nevertwice({ secret }); if they pass none, leave out --secret-env.",
  );
}

/** Null: it cannot be seen. */
function isMadeWith(
  { input, fingerprint, action }: LedgerRecord,
  secret: string | Uint8Array | undefined,
): boolean | null {
  const own = Object.values(fingerprint.fields);
  if (input === null || !("json" in input) || isNote(action) || own.length === 0) return null;
  // Digests beside sealed payloads have a key of their own.
  if (/^[0-9a-f]{8}[.]/.test(fingerprint.guarded)) return null;
  try {
    const digests = Object.values(printInput(JSON.parse(input.json), [], secret).fields());
    return digests.some((one) => own.includes(one));
  } catch (error) {
    if (isOfAllRecords(error)) throw error;
    return null;
  }
}
