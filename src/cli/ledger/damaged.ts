/** Damaged records: finding them by listing, and setting one aside by name. */
import type { DamagedRecord } from "../../core/damaged-record.ts";
import type { Page, Quarantined, Store } from "../../core/store.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { oneLine } from "../term/text.ts";
import { isFullKey } from "./find-record.ts";
import type { Check } from "./health.ts";

const PAGE = 500;
// A listing of this many takes a moment; a larger ledger is looked at from its newest record on, unless all is asked for.
const LOOKED_AT_QUICKLY = 2_000;
const NAMED = 5;

export async function damagedCheck(store: Store, suggest: (line: string) => string, deep: boolean): Promise<Check> {
  const { damaged, whole } = await findDamaged(store, deep ? Number.POSITIVE_INFINITY : LOOKED_AT_QUICKLY);
  const where = whole ? "" : ` among the newest ${LOOKED_AT_QUICKLY}`;
  const [first] = damaged;
  const partial = whole ? {} : { partial: true };
  const unread = whole ? "" : "; older records were not read";
  if (first === undefined) return { name: "damaged", value: `none${where}${unread}`, level: "ok", ...partial };
  const keys = damaged.slice(0, NAMED).map(({ key }) => oneLine(key));
  const more = damaged.length > NAMED ? ` and ${damaged.length - NAMED} more` : "";
  const canSetAside = store.quarantine !== undefined;
  return {
    name: "damaged",
    value: `${plural(damaged.length, "record")} cannot be read${where}: ${keys.join(", ")}${more}${unread}`,
    level: "problem",
    ...partial,
    advice: `calls for them are refused, and all others work. Restore them from a backup.${canSetAside ? " To give the guard of one up instead:" : ""}`,
    ...(canSetAside && { command: suggest(`doctor --quarantine ${keys[0]}`) }),
  };
}

async function findDamaged(store: Store, most: number): Promise<{ damaged: readonly DamagedRecord[]; whole: boolean }> {
  const damaged = new Map<string, DamagedRecord>();
  let looked = 0;
  for (let cursor: string | null = null; ; ) {
    const page: Page = await store.list({ limit: PAGE, ...(cursor !== null && { cursor }) });
    for (const one of page.damaged ?? []) damaged.set(one.key, one);
    looked += page.items.length;
    cursor = page.cursor;
    if (cursor === null) return { damaged: [...damaged.values()], whole: true };
    if (looked >= most) return { damaged: [...damaged.values()], whole: false };
  }
}

export async function quarantineAll(store: Store, keys: readonly string[]): Promise<Quarantined[]> {
  if (store.quarantine === undefined) {
    throw new ProblemError(
      `the ${store.name} store cannot set a record aside. Restore it from a backup; with PostgreSQL, use a plain connection string and a role that may create tables.`,
    );
  }
  const aside: Quarantined[] = [];
  for (const key of keys) {
    const one = await store.quarantine(key);
    if (one === null) throw nothingToSetAside(key, store.name);
    aside.push(one);
  }
  return aside;
}

/** A damaged record is not looked up by the beginning of its key: what it guards is given up, so it is named in full. */
function nothingToSetAside(key: string, store: string): Error {
  if (isFullKey(key)) return new ProblemError(`there is no record with the key ${oneLine(key)} in ${store}.`);
  return new UsageError(
    `--quarantine ${oneLine(key)}: that is not a full key. Give the full key, nt1_ and 52 characters, as doctor prints it.`,
  );
}
