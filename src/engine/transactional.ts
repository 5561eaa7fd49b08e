/**
 * An effect that is a write in the caller's own database: claim, effect and confirm commit with the caller's
 * transaction, or none of them does. There is nothing to settle, so there is no doubt, no lease to keep and no retry.
 *
 * What is read and written here may yet be rolled back. So it goes to the caller alone: into no cache, to nobody who
 * waits for the same intent, and into no event but `in_transaction`, which says so.
 */
import { configError, NevertwiceError, unmarked } from "../core/errors.ts";
import { aliasTarget } from "../core/key/formerly.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { nextStep } from "../core/plan.ts";
import { shortLease } from "../core/policy.ts";
import { preventedBy } from "../core/prevented.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import type { Stored, TransactionalStore, TransactionView } from "../core/store.ts";
import { type LedgerEvent, transition } from "../core/transition.ts";
import type { Call } from "./call.ts";
import { stoppedByCheck } from "./check.ts";
import { contextOf, runAs } from "./context.ts";
import type { Engine } from "./engine.ts";
import { by } from "./events.ts";
import { resultThere } from "./exists.ts";
import { aliasSwapsWithin, follow, followKey, locate } from "./formerly.ts";
import { intentOf, queueAgainOf } from "./make-call.ts";
import type { LookedFor } from "./operate.ts";
import { DEFAULT_LIMITS } from "./payloads.ts";
import { failureIn } from "./result-warnings.ts";
import { otherInputOf, withDiffers, withFreeDiffers } from "./same-input.ts";
import { swapsWithin, type Turn, turnOf } from "./turn.ts";

export function runInTransaction(engine: Engine, call: Call, tx: unknown): Promise<Outcome<unknown>> {
  return engine.during(() => runWithin(engine, call, tx));
}

async function runWithin(engine: Engine, asked: Call, tx: unknown): Promise<Outcome<unknown>> {
  const view = viewOf(engine, asked.definition.name, tx);
  warnOfTxNotTaken(engine, asked);
  engine.services.unguarded.requireWritten(asked, asked.definition.name);
  const swaps = aliasSwapsWithin(engine.services.ledger, view);
  const { call, stored } =
    asked.former === undefined || asked.former.length === 0
      ? await follow(swaps, asked, { key: asked.key, action: asked.definition.name })
      : await locate(swaps, asked);
  const standing = standingOutcome(engine, call, stored);
  if (standing !== null) return standing;
  const stopped = await stoppedByCheck(engine.services, call, tx);
  if (stopped !== null) return stopped;
  const all = view.atomically ?? (<T>(work: () => Promise<T>) => work());
  const once = (effect: Effect) =>
    all(async () => {
      const turn = stored === null ? null : await takeTurn(engine, call, view, stored);
      if (turn !== null && turn.stored !== null && turn.before !== null)
        return engine.describe(turn.stored.record) as Outcome<unknown>;
      return claimRunConfirm(engine, call, view, turn === null ? stored : turn.stored, effect);
    });
  try {
    return await once((record) => runEffect(engine, call, record, tx)).catch((error: unknown) =>
      orExisting(call, error, once),
    );
  } catch (error) {
    if (error instanceof LostRace) {
      const isAlias = aliasTarget(error.current?.record, engine.services.ledger.instant().now) !== null;
      return (isAlias ? null : standingOutcome(engine, call, error.current)) ?? inFlight(engine, call);
    }
    if (error instanceof NevertwiceError) throw error;
    // The savepoint took claim and effect back: surely not done, and nothing left to remember it by.
    return { status: "failed", key: call.key, error: unmarked(error), final: false };
  }
}

/** Nothing but the context brings the transaction to `run`. */
function warnOfTxNotTaken({ services: { warnings } }: Engine, { definition: { name, run } }: Call): void {
  if (run.length >= 2) return;
  warnings.warn(
    "TX_NOT_TAKEN",
    name,
    `${name}: it was called with tx, and its function takes no context, so it cannot write through that transaction. What it writes through a pool, or through another connection, is committed by itself: it stays after a rollback, and the next call writes it again. Take the context and write through ctx.tx: run: (input, ctx) => …, and in once and in a step (ctx) => …`,
  );
}

type Effect = (record: LedgerRecord) => Promise<unknown>;

/** The savepoint is rolled back by now, so that `exists` may read in the same transaction. */
async function orExisting(
  { definition: { exists }, input }: Call,
  error: unknown,
  once: (effect: Effect) => Promise<Outcome<unknown>>,
): Promise<Outcome<unknown>> {
  const there = exists === undefined ? undefined : await resultThere(exists, error, input);
  if (there === undefined) throw error;
  return once(async () => there.result);
}

export function viewOf(engine: Engine, action: string, tx: unknown): TransactionView {
  const { store } = engine.services.ledger;
  if (!("within" in store)) {
    throw configError(
      `${action}: tx was given, but the ${store.name} store has no transactions to share. Keep the ledger in your own database: nevertwice({ store: "sqlite:app.db" }) or a Postgres URL.`,
    );
  }
  return (store as TransactionalStore<unknown>).within(tx);
}

/** What the ledger says as the transaction sees it. */
export async function statusInTransaction(
  engine: Engine,
  action: string,
  { key, tenant, call }: LookedFor,
  tx: unknown,
): Promise<Outcome<unknown> | Absent> {
  engine.requireOpen();
  const swaps = aliasSwapsWithin(engine.services.ledger, viewOf(engine, action, tx));
  const stored = await followKey(swaps, key);
  const hidden = stored !== null && tenant !== "" && stored.record.tenant !== tenant;
  return stored === null || hidden ? { status: "absent", key } : engine.describe(stored.record, call);
}

/** What is already true of the intent, when that is all there is to say. */
function standingOutcome(engine: Engine, call: Call, stored: Stored | null): Outcome<unknown> | null {
  const { definition, key } = call;
  const { ledger, events, prevented } = engine.services;
  if (stored === null) return null;
  const at = ledger.instant();
  const other = otherInputOf(call, stored.record, at);
  if (other?.meets === "conflict") {
    events.emit({ type: "in_transaction", action: definition.name, key, ...by(call), what: "conflict" });
    prevented.count(call, "conflict");
    return { status: "conflict", key, differs: other.differs };
  }
  const step = nextStep(stored.record, {
    policy: definition.policy,
    at,
    newRound: true,
    otherInput: other !== null,
    sameBytes: false,
  });
  if (step.do === "claim" || step.do === "take-turn") return null;
  const outcome = engine.describe(stored.record) as Outcome<unknown>;
  const cause = preventedBy(outcome);
  if (cause !== null) prevented.count(call, cause);
  if (outcome.status !== "done") return withDiffers(outcome, other);
  events.emit({ type: "in_transaction", action: definition.name, key, ...by(call), what: "replayed" });
  return withFreeDiffers(outcome, call, stored.record);
}

/** What belongs to an order begins here only when nothing stands before it; otherwise it is left to a worker. */
async function takeTurn(engine: Engine, call: Call, view: TransactionView, seen: Stored): Promise<Turn | null> {
  const { ledger, payloads } = engine.services;
  if (seen.record.terms?.line === undefined || expired(seen.record, ledger.instant().now)) return null;
  let stored = seen;
  if (seen.record.state === "failed") {
    const at = ledger.instant();
    const event = queueAgainOf(call, seen.record, payloads, at, otherInputOf(call, seen.record, at) !== null);
    if (event !== null) stored = await swap(engine, view, seen, event);
  }
  return turnOf(swapsWithin(ledger, view), stored);
}

async function claimRunConfirm(
  engine: Engine,
  call: Call,
  view: TransactionView,
  stored: Stored | null,
  effect: Effect,
): Promise<Outcome<unknown>> {
  const { payloads, newHolder, events, warnings } = engine.services;
  const { definition, key } = call;
  const claimed = await swap(engine, view, stored, {
    type: "claim",
    intent: intentOf(call, stored?.record ?? null, payloads),
    to: "sent",
    holder: newHolder(),
    leaseMs: definition.policy.leaseMs,
    newRound: true,
    otherInput: stored !== null && otherInputOf(call, stored.record, engine.services.ledger.instant()) !== null,
    ...(stored?.record.terms?.place !== undefined && { place: stored.record.terms.place }),
  });
  const { clock } = engine.services;
  const beganAt = clock.monotonic();
  const result = await effect(claimed.record);
  const silentMs = clock.monotonic() - beganAt;
  const { leaseMs } = definition.policy;
  const because = "it ran inside the caller's transaction";
  const message = shortLease(definition.name, { leaseMs, silentMs, because });
  if (message !== null) warnings.warn("LEASE_SHORT", definition.name, message);
  const failure = failureIn(warnings, definition, result);
  if (failure !== null) throw failure;
  const { tenant, fence, holder, attempt } = claimed.record;
  const confirmed = await swap(engine, view, claimed, {
    type: "confirm",
    hold: { fence, holder: holder as string },
    result: payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence }),
    providerId: engine.services.providerIds.of(definition, result),
  });
  events.emit({ type: "in_transaction", action: definition.name, key, ...by(call), what: "executed" });
  return { status: "done", key, result, replayed: false, attempt, at: confirmed.record.updatedAt };
}

/** Another transaction got in between: its record, not ours, is the one that stands. */
class LostRace extends Error {
  readonly current: Stored | null;
  constructor(current: Stored | null) {
    super("another attempt holds this intent");
    this.current = current;
  }
}

async function swap(engine: Engine, view: TransactionView, stored: Stored | null, event: LedgerEvent): Promise<Stored> {
  const change = transition(stored?.record ?? null, event, engine.services.ledger.instant());
  if (!change.ok) throw new LostRace(stored);
  const put = { record: change.record, expected: stored?.version ?? null, before: stored?.record };
  const [result] = await view.write([put]);
  if (result === undefined || !result.ok) throw new LostRace(result?.current ?? null);
  return { record: change.record, version: result.version };
}

async function runEffect(engine: Engine, call: Call, record: LedgerRecord, tx: unknown): Promise<unknown> {
  const { ledger, logger, underWay } = engine.services;
  const { definition, input } = call;
  // Nothing interrupts it: the transaction's owner decides when it ends.
  const { signal } = new AbortController();
  const pulse = { signal, ended: false };
  const context = contextOf({
    attempt: record,
    deadline: ledger.instant().now + definition.policy.timeoutMs,
    log: logger,
    pulse,
    sent: async () => {},
    owner: underWay,
    tx,
  });
  try {
    return await runAs(context, async () => {
      const draft = definition.prepare ? await definition.prepare(input, context) : undefined;
      return definition.run(input, context, draft);
    });
  } finally {
    pulse.ended = true;
  }
}

function inFlight(engine: Engine, call: Call): Outcome<unknown> {
  const { now } = engine.services.ledger.instant();
  return { status: "in_flight", key: call.key, since: now, until: now + call.definition.policy.leaseMs };
}
