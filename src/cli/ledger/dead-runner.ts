/**
 * A slot whose runner is a process of this host that has ended while its lease still runs: what is true of it, and what the next
 * call does about it.
 */
import { entryOf } from "../../core/entry-name.ts";
import { type Instant, type LedgerRecord, leaseAlive } from "../../core/record.ts";
import { instantOf, type Page, type Store } from "../../core/store.ts";
import { isRunnerGone } from "../../schedule/slot-attempt.ts";
import { age } from "../term/format.ts";
import { heldIfSilent, ofCommand } from "./next-by-itself.ts";

/** What the next call does, in words; null: its runner lives, is no process of this host, or its lease is over anyway. */
export function afterDeadRunner(
  record: LedgerRecord,
  at: Instant,
  { traits }: { readonly traits: Pick<Store["traits"], "hosts"> },
): string | null {
  const { kind } = entryOf(record.action);
  if ((kind !== "job" && kind !== "plan") || !leaseAlive(record, at) || !isRunnerGone(record)) return null;
  const command = ofCommand(record, at);
  if (command !== null) return command;
  const left = Math.round((record.lease?.until ?? 0) - at.steady);
  // A ledger of many hosts goes by the lease.
  const when =
    traits.hosts === "one" ? "the next call for this slot" : `a call in ${age(left)}, when its lease is over,`;
  if (kind === "plan") return `${when} makes the plan again`;
  if (record.state === "claimed") return `nothing was started, and ${when} takes it over`;
  return heldIfSilent(record)
    ? `nothing of its run is left, and it was to be held: ${when} finds it in doubt, and a person has to decide`
    : `nothing of its run is left, and ${when} takes it over`;
}

const PAGE = 500;
// As many as are looked at for damage: a listing of this many takes a moment.
const LOOKED_AT = 2_000;

/** How many there are among the newest records. */
export async function countDeadRunners(store: Store, own: { readonly tenant?: string }): Promise<number> {
  let [count, looked] = [0, 0];
  for (let cursor: string | null = null; looked < LOOKED_AT; ) {
    const page: Page = await store.list({ limit: PAGE, ...own, ...(cursor !== null && { cursor }) });
    const at = instantOf(store);
    for (const { record } of page.items) if (afterDeadRunner(record, at, store) !== null) count += 1;
    looked += page.items.length;
    cursor = page.cursor;
    if (cursor === null) break;
  }
  return count;
}
