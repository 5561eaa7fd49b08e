/**
 * Calls that were answered from the ledger instead of being run: counted in memory, so that a repeat costs no write, and added to
 * a note in the ledger by the background sweep, by sweep() and when the program closes.
 */
import { randomUUID } from "node:crypto";
import { type At, atMs } from "../core/at.ts";
import { type Duration, durationMs } from "../core/duration.ts";
import { entryOf } from "../core/entry-name.ts";
import { configError, noSuchOption } from "../core/errors.ts";
import { isNote } from "../core/note.ts";
import {
  addPrevented,
  dayOf,
  HOUR_MS,
  type HourCount,
  PREVENTED_ACTION,
  type PreventedCause,
  type PreventedCount,
  type PreventedEntry,
  type PreventedWrite,
  preventedKey,
  sumPrevented,
} from "../core/prevented.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Page, Store } from "../core/store.ts";
import type { CallDefaults, OfTool } from "./call.ts";
import type { Engine } from "./engine.ts";
import type { Ledger } from "./ledger.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface PreventedQuery extends TenantChoice {
  /** How far back ("7d"), or from when on (a Date). By whole hours; all that is kept unless given, which is 90 days. */
  readonly since?: Duration | Date;
}

export interface Prevented {
  /** Calls that were not run. */
  readonly prevented: number;
  /** Calls that ran all the same, under mode: "observe". */
  readonly observed: number;
  /** By tenant, action and cause; the most frequent first. */
  readonly entries: readonly PreventedEntry[];
}

/** The call that was answered. */
export interface Counted {
  readonly definition: { readonly name: string };
  readonly tenant: string;
  readonly key: string;
  readonly ofTool?: OfTool;
}

interface Pending {
  readonly hours: Map<number, HourCount>;
  key: string;
}

type Causes = Map<PreventedCause, Pending>;

// Between two sweeps. Names and tenants may be made at call time; what is more is not counted.
const MOST_PENDING = 10_000;
const MOST_SWAPS = 16;
const PAGE = 200;

export class PreventedCounts {
  readonly #ledger: Ledger;
  /** By tenant and action. */
  #pending = new Map<string, Map<string, Causes>>();
  #size = 0;
  /** With the ids of their first try: a reply may have been lost. */
  #unwritten: PreventedWrite[] = [];
  #flushing: Promise<void> | null = null;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  count({ definition: { name }, tenant, key, ofTool = {} }: Counted, cause: PreventedCause): void {
    const { observed, tally } = ofTool;
    if (tally !== undefined) {
      tally.cause = cause;
      return;
    }
    const at = this.#ledger.instant().now;
    const pending = this.#of(tenant, name, cause, key);
    if (pending === null) return;
    pending.key = key;
    const hour = Math.floor(at / HOUR_MS);
    const known = pending.hours.get(hour);
    if (known === undefined) {
      pending.hours.set(hour, { prevented: observed ? 0 : 1, observed: observed ? 1 : 0, first: at, last: at });
      return;
    }
    if (observed) known.observed += 1;
    else known.prevented += 1;
    known.last = at;
  }

  #of(tenant: string, name: string, cause: PreventedCause, key: string): Pending | null {
    let actions = this.#pending.get(tenant);
    let causes = actions?.get(name);
    const known = causes?.get(cause);
    if (known !== undefined) return known;
    if (this.#size >= MOST_PENDING || isOwn(name)) return null;
    if (actions === undefined) {
      actions = new Map();
      this.#pending.set(tenant, actions);
    }
    if (causes === undefined) {
      causes = new Map();
      actions.set(name, causes);
    }
    this.#size += 1;
    const pending = { hours: new Map<number, HourCount>(), key };
    causes.set(cause, pending);
    return pending;
  }

  /** Never rejects: what could not be written is kept for the next time. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = null;
    });
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const writes = [...this.#unwritten, ...this.#taken()];
    this.#unwritten = [];
    for (const [index, write] of writes.entries()) {
      try {
        if (!(await this.#write(write))) this.#unwritten.push(write);
      } catch {
        this.#unwritten.push(...writes.slice(index, index + MOST_PENDING));
        return;
      }
    }
  }

  #taken(): PreventedWrite[] {
    const taken = this.#pending;
    this.#pending = new Map();
    this.#size = 0;
    return [...taken].flatMap(([tenant, actions]) => {
      const counts = [...actions].flatMap(([action, causes]) =>
        [...causes].map(([cause, pending]): PreventedCount => ({ action, cause, ...pending })),
      );
      const days = new Set(counts.flatMap(({ hours }) => [...hours.keys()].map((hour) => dayOf(hour * HOUR_MS))));
      return [...days].map((day) => ({ tenant, day, id: randomUUID(), counts }));
    });
  }

  async #write(write: PreventedWrite): Promise<boolean> {
    let stored = await this.#ledger.read(preventedKey(write.tenant, write.day));
    for (let swap = 0; swap < MOST_SWAPS; swap += 1) {
      const record = addPrevented(stored?.record ?? null, write, this.#ledger.instant());
      if (record === null) return true;
      const result = await this.#ledger.put({ record, expected: stored?.version ?? null });
      if (result.ok) return true;
      stored = result.current;
    }
    return false;
  }
}

/** What jobs and the ledger look up for themselves is nobody's duplicate. */
function isOwn(action: string): boolean {
  return isNote(action) || entryOf(action).kind === "plan";
}

const OPTIONS = new Set(["since", "tenant", "tenants"]);

export async function listPrevented(
  engine: Engine,
  query: PreventedQuery,
  { confinedTo }: CallDefaults,
): Promise<Prevented> {
  for (const option of Object.keys(query)) {
    if (!OPTIONS.has(option)) throw noSuchOption("prevented()", option, OPTIONS);
  }
  const { since, ...choice } = query;
  const tenant = tenantOf(choice, confinedTo, "prevented()");
  const from = sinceMs(since, engine.services.ledger.instant().now);
  return engine.during(async () => {
    await engine.services.prevented.flush();
    const { ledger } = engine.services;
    return readPrevented(ledger, { since: from, tenant }, ledger.instant());
  });
}

function sinceMs(since: PreventedQuery["since"], now: number): number {
  if (since === undefined) return 0;
  const refuse = (what: string) => configError(`prevented(): since: ${what}.`);
  return since instanceof Date ? atMs(since as At, refuse) : now - durationMs(since, "prevented(): since");
}

export async function readPrevented(
  store: Pick<Store, "list">,
  { since, tenant }: { readonly since: number; readonly tenant: string | undefined },
  at: Instant,
): Promise<Prevented> {
  const notes: LedgerRecord[] = [];
  let cursor: string | null = null;
  do {
    const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await store.list({ action: PREVENTED_ACTION, limit: PAGE, ...onlyOf(tenant), ...from });
    notes.push(...page.items.map(({ record }) => record));
    cursor = page.cursor;
  } while (cursor !== null);
  const entries = sumPrevented(notes, since, at);
  const sum = (of: "prevented" | "observed") => entries.reduce((total, one) => total + one[of], 0);
  return { prevented: sum("prevented"), observed: sum("observed"), entries };
}
