/**
 * A call of a guarded tool: where it would be answered with what is done already, a person may have granted one more run. Then it
 * goes on as the next version. A first call asks for no grant.
 */
import { about, isAbout, type OnceMore } from "../core/once-more.ts";
import type { Outcome } from "../core/outcome.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { Engine } from "./engine.ts";
import { readNote, swap } from "./once-more.ts";

export interface Versions {
  /** One attempt at this version. `by`: who granted it. */
  attempt(version: number, by: OnceMore["decided"]): Promise<Outcome<unknown>>;
  keyOf(version: number): Promise<string>;
}

const MOST_VERSIONS = 1_000;
const DAY_MS = 86_400_000;

export async function attemptGranted(engine: Engine, versions: Versions): Promise<Outcome<unknown>> {
  const chain: Chain = { engine, versions, earlier: [], version: 1 };
  let by: OnceMore["decided"];
  for (let turn = 1; ; turn += 1) {
    const outcome = await versions.attempt(chain.version, by);
    // Done it is, whatever became of the note.
    const grant = turn < MOST_VERSIONS ? await using(chain, outcome).catch(() => null) : null;
    if (grant === null) return outcome;
    by = grant.decided;
  }
}

interface Chain {
  readonly engine: Engine;
  readonly versions: Versions;
  /** The records of the versions before, as they were met. */
  readonly earlier: LedgerRecord[];
  version: number;
}

/** The grant by which the call goes on; null: it is answered with this outcome. */
async function using(chain: Chain, outcome: Outcome<unknown>): Promise<OnceMore | null> {
  const { engine, earlier } = chain;
  if (outcome.status !== "done" || (!outcome.replayed && earlier.length === 0)) return null;
  const found = outcome.replayed ? await readNote(engine, outcome.key) : null;
  // Most repeats end here.
  if (found?.state !== "granted" && earlier.length === 0) return null;
  const record = (await engine.services.ledger.read(outcome.key))?.record;
  if (record === undefined) return null;
  const grant = found !== null && isAbout(found, record) ? found : null;
  if (grant?.state === "granted") {
    if (record.terms?.untilDelivered) return (await endGuard(engine, record)) ? grant : null;
    const next = await begin(engine, record, () => chain.versions.keyOf(chain.version + 1));
    if (next !== null) {
      earlier.push(record);
      chain.version += 1;
      await keepWhileOpen(chain, next);
      return grant;
    }
  }
  await keepUntilAfter(chain, record);
  return null;
}

/** Before it runs: from here on the grant is used. The key of what it is used for; null: it was taken back. */
async function begin(engine: Engine, record: LedgerRecord, keyOfNext: () => Promise<string>): Promise<string | null> {
  const key = await keyOfNext();
  const { note } = await swap(engine, record, (known) =>
    known?.state === "granted" && known.next === undefined ? { ...known, ...about(record), next: key } : null,
  );
  return note?.state === "granted" ? (note.next ?? null) : null;
}

/** Of a record that guards until its answer has arrived there is one at a time: this one's time is over. */
async function endGuard(engine: Engine, record: LedgerRecord): Promise<boolean> {
  const used = await begin(engine, record, async () => record.key);
  return used === record.key && engine.delivered.end(record);
}

/**
 * The versions before one that is not done lead to it, with their notes: without them, an identical call would run as a first
 * one. Nobody knows when it will be done.
 */
async function keepWhileOpen({ engine, earlier }: Chain, next: string): Promise<void> {
  const { ledger } = engine.services;
  const following = (await ledger.read(next))?.record;
  if (following?.state === "confirmed" && !expired(following, ledger.instant().now)) return;
  for (const { key } of earlier) await keep(engine, key, null);
}

/** Once it is done they are kept for as long as it is, and a day; what was kept for ever stays so. */
async function keepUntilAfter({ engine, earlier }: Chain, { state, expiresAt }: LedgerRecord): Promise<void> {
  if (state !== "confirmed") return;
  for (const { key, expiresAt: before } of earlier) {
    const until = before === null || expiresAt === null ? null : Math.max(before, expiresAt + DAY_MS);
    await keep(engine, key, until);
  }
}

async function keep(engine: Engine, key: string, until: number | null): Promise<void> {
  const { ledger } = engine.services;
  const kept = (await ledger.read(key))?.record;
  if (kept === undefined || kept.expiresAt === until) return;
  await engine.retain(key, until === null ? null : until - ledger.instant().now);
  await swap(engine, { ...kept, expiresAt: until }, (known) => known);
}
