/** What the command says of a record that was forgotten: who, when and why, and nothing of what it held. */
import { isDamagedRecord } from "../../core/damaged-record.ts";
import { type ForgottenEntry, forgottenEntries, forgottenNoteKey, isEmptied } from "../../core/forgotten.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import type { Context } from "../command.ts";
import { moment } from "../term/format.ts";
import { oneLine } from "../term/text.ts";
import { isFullKey } from "./find-record.ts";
import { requireStore } from "./open.ts";

export interface ForgottenBefore {
  readonly key: string;
  readonly entries: readonly ForgottenEntry[];
}

const PREFIXES_LOOKED_AT = 50;

/** By the full key; by its beginning only until the emptied record is swept. Null: it was not forgotten, as far as is known. */
export async function forgottenBefore(context: Context, key: string): Promise<ForgottenBefore | null> {
  const store = requireStore(context);
  const tenant = context.args.text("tenant") ?? "";
  const named = isFullKey(key) ? [key] : await emptiedWith(store, key, tenant);
  const [full] = named;
  if (full === undefined || named.length > 1) return null;
  const entries = forgottenEntries(await noteOf(store, full), instantOf(store), tenant);
  return entries.length === 0 ? null : { key: full, entries };
}

/** A note that cannot be read hides no record; doctor names it. */
async function noteOf(store: Store, key: string): Promise<LedgerRecord | null> {
  try {
    const [note] = await store.read([forgottenNoteKey(key)]);
    return note?.record ?? null;
  } catch (error) {
    if (isDamagedRecord(error)) return null;
    throw error;
  }
}

async function emptiedWith(store: Store, keyPrefix: string, tenant: string): Promise<string[]> {
  const query = { keyPrefix, limit: PREFIXES_LOOKED_AT, ...(tenant !== "" && { tenant }) };
  const { items } = await store.list(query);
  return items.filter(({ record }) => isEmptied(record)).map(({ record }) => record.key);
}

export function forgottenWords({ at, by, reason, was }: ForgottenEntry, now: number): string {
  return `forgotten by ${oneLine(by)} on ${moment(at, now)}: ${oneLine(reason)} (it was ${was})`;
}
