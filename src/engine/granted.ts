/**
 * A call of a guarded tool: where it would be answered with what is done already, a person may have granted one more run. Then it
 * goes on as the next version. A first call asks for no grant.
 */
import type { OnceMore } from "../core/once-more.ts";
import type { Outcome } from "../core/outcome.ts";
import type { PreventedCause } from "../core/prevented.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Engine } from "./engine.ts";
import { noteOf, swap } from "./once-more.ts";

/** Why the last attempt was not run. */
export interface Tally {
  cause: PreventedCause | null;
}

export interface Versions {
  /** One attempt at this version. `by`: who granted it. */
  attempt(version: number, by: OnceMore["decided"]): Promise<Outcome<unknown>>;
  keyOf(version: number): Promise<string>;
  /** How long the tool's records are kept. */
  readonly keepMs: number | null;
}

const MOST_VERSIONS = 1_000;
const DAY_MS = 86_400_000;

export async function attemptGranted(engine: Engine, versions: Versions): Promise<Outcome<unknown>> {
  const earlier: string[] = [];
  let by: OnceMore["decided"];
  for (let version = 1; ; version += 1) {
    const outcome = await versions.attempt(version, by);
    if (outcome.status !== "done" || !outcome.replayed || version >= MOST_VERSIONS) return outcome;
    try {
      const grant = await noteOf(engine, outcome.key);
      if (grant?.state !== "granted") return outcome;
      earlier.push(outcome.key);
      if (grant.next === undefined && !(await begin(engine, versions, earlier, version))) return outcome;
      by = grant.decided;
    } catch {
      // Done it is, whatever became of the note.
      return outcome;
    }
  }
}

/** Before it runs: from here on the grant is used. False: it was taken back. */
async function begin(
  engine: Engine,
  { keyOf, keepMs }: Versions,
  earlier: readonly string[],
  version: number,
): Promise<boolean> {
  const next = await keyOf(version + 1);
  const last = earlier.at(-1) as string;
  // The versions before it lead to it, with their notes: without them, an identical call would run as a first one.
  for (const key of earlier) {
    const record = await keptUntilAfter(engine, key, keepMs);
    if (record === null) return false;
    const { note } = await swap(engine, record, (known) => {
      if (known === null || key !== last) return known;
      return known.state === "granted" && known.next === undefined ? { ...known, next } : null;
    });
    if (note?.state !== "granted") return false;
  }
  return true;
}

async function keptUntilAfter(engine: Engine, key: string, keepMs: number | null): Promise<LedgerRecord | null> {
  const { ledger } = engine.services;
  const record = (await ledger.read(key))?.record ?? null;
  const expiresAt = record?.expiresAt ?? null;
  if (expiresAt === null || keepMs === null || expiresAt >= ledger.instant().now + keepMs + DAY_MS) return record;
  await engine.retain(key, keepMs + DAY_MS);
  return (await ledger.read(key))?.record ?? null;
}
