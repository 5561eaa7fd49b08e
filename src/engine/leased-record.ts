/** A record that was leased, before it is begun: whether its turn has come, and how it is handed back or put aside. */
import { isNevertwiceError, isStoreUnavailable, messageOf } from "../core/errors.ts";
import { expiredError } from "../core/queued.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { Hold } from "../core/transition.ts";
import type { Engine } from "./engine.ts";
import { by } from "./events.ts";
import { keepOrder, swapsOf, turnOf } from "./turn.ts";

interface Services {
  readonly engine: Engine;
}

/** How the hold on a record that was not begun ended. */
export type NotBegun =
  | { readonly as: "given-back"; readonly at: number; readonly soon: boolean; readonly stored: Stored }
  | { readonly as: "failed"; readonly why: "expired" | "unreadable" }
  /** Somebody else has it by now. */
  | { readonly as: "moved" };

/** A leased record of an order: to be begun, put off, or no longer this worker's. */
export type LeasedTurn =
  | { readonly as: "begin"; readonly stored: Stored }
  | { readonly as: "wait"; readonly stored: Stored; readonly before: LedgerRecord }
  | { readonly as: "moved" };

export async function leasedTurn(engine: Engine, leased: Stored): Promise<LeasedTurn> {
  const { ledger } = engine.services;
  const { stored, before } = await turnOf(swapsOf(ledger), leased);
  const { fence, holder } = leased.record;
  if (stored === null || stored.record.fence !== fence || stored.record.holder !== holder) return { as: "moved" };
  if (before === null) return { as: "begin", stored };
  await keepOrder(ledger, stored.record);
  return { as: "wait", stored, before };
}

/** `soon`: what it waits for is under way, so that whoever drains the queue waits too. */
export async function giveBack(services: Services, stored: Stored, dueAt: number, soon = false): Promise<NotBegun> {
  const event = { type: "give-back", hold: holdOf(stored.record), dueAt } as const;
  try {
    const applied = await services.engine.services.ledger.apply(stored, event);
    return applied.ok ? { as: "given-back", at: dueAt, soon, stored: applied.stored } : { as: "moved" };
  } catch (error) {
    if (isStoreUnavailable(error)) giveBackLater(services, stored);
    throw error;
  }
}

const LEFT_TO_OTHERS_MS = 30_000;

/** Processes are given a new key one after the other: what this one cannot open, another one can. */
export function leaveToOthers(services: Services, stored: Stored, lacks: string): Promise<NotBegun> {
  const { ledger, warnings } = services.engine.services;
  const { action, key } = stored.record;
  warnings.warn(
    "KEY_MISSING",
    action,
    `${action}: the queued intent ${key} cannot be opened by this process, which lacks ${lacks}. It is left to other processes, and what follows it in its order waits. Give every process the same \`encrypt\`; to rotate, add the new key as the second one everywhere first.`,
    lacks,
  );
  return giveBack(services, stored, ledger.instant().now + LEFT_TO_OTHERS_MS);
}

/** The store does not answer: it is told as soon as it does that this was not begun. */
export function giveBackLater({ engine }: Services, { record }: Stored): void {
  const { untold, ledger } = engine.services;
  const dueAt = ledger.instant().now;
  untold.add({ key: record.key, event: { type: "give-back", hold: holdOf(record), dueAt }, leaseMs: 0 });
}

/** F45: what cannot be run is put aside, with its reason, and the queue moves on. */
export async function parkLeased(
  services: Services,
  stored: Stored,
  error: unknown,
  why: "expired" | "unreadable",
): Promise<NotBegun> {
  const { ledger, events } = services.engine.services;
  const { record } = stored;
  const shown = { ...toStoredError(error), ...(isNevertwiceError(error) && { code: error.code }) };
  const reason = why === "expired" ? expiredError(messageOf(error)) : shown;
  // Nothing was sent and nobody refused it: it may be enqueued again, or called.
  const event = { type: "not-sent", hold: holdOf(record), error: reason, retryAt: null, final: false } as const;
  const applied = await ledger.apply(stored, event);
  if (!applied.ok) return { as: "moved" };
  const { action, key, attempt } = record;
  events.emit({ type: "failed", action, key, ...by(record), attempt, final: false });
  return { as: "failed", why };
}

/** Why it is too late to begin; null: it is not. */
export function staleSince({ terms, history }: LedgerRecord, now: number): Error | null {
  if (terms?.notAfter === undefined || terms.notAfter > now) return null;
  const last = history.findLast(({ event }) => event === "not-sent")?.error;
  const tried = last === undefined ? "" : `; its last try failed: ${last}`;
  return new Error(`expired: it was not to be begun after ${new Date(terms.notAfter).toISOString()}${tried}`);
}

export function holdOf({ fence, holder }: LedgerRecord): Hold {
  return { fence, holder: holder as string };
}
