/** The outbox's front door: an intent is recorded, in the caller's transaction if one is given, for a worker to run. */
import { type Duration, durationMs } from "../core/duration.ts";
import { configError, NevertwiceError, noSuchOption } from "../core/errors.ts";
import { aliasTarget } from "../core/key/formerly.ts";
import { isSettled } from "../core/order.ts";
import { errorForOutcome, type Outcome } from "../core/outcome.ts";
import { preventedBy } from "../core/prevented.ts";
import type { LedgerRecord, State, WorkTerms } from "../core/record.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Stored, TransactionView } from "../core/store.ts";
import { type Intent, type LedgerEvent, transition } from "../core/transition.ts";
import type { Call, CallDefaults, CallOptions } from "./call.ts";
import { stoppedByCheck } from "./check.ts";
import { sleep } from "./clock.ts";
import type { Engine } from "./engine.ts";
import { inputDoesNotFit, requireStorableInput } from "./enqueued-input.ts";
import { by } from "./events.ts";
import { aliasSwapsOf, aliasSwapsWithin, follow, locate, peek } from "./formerly.ts";
import type { Applied } from "./ledger.ts";
import { intentOf } from "./make-call.ts";
import { insertInLine, type KnownNote, lineKey, place } from "./order-place.ts";
import { type Other, otherInputOf, withDiffers } from "./same-input.ts";
import { swapsOf, swapsWithin } from "./turn.ts";

export interface EnqueueOptions extends Omit<CallOptions, "wait"> {
  /** Not before this: a Date, or epoch ms. Now, unless given. */
  readonly dueAt?: Date | number;
  /** Not before this long from now. */
  readonly delay?: Duration;
  /** Stale after this: a Date or epoch ms, or a duration counted from when it is due. It then fails as expired. */
  readonly expires?: Date | Duration;
  /** 0 (unless given) to 9: goes ahead of work that became due up to this many minutes before it. */
  readonly priority?: number;
  /** Intents of one action with one orderKey run one after the other, in the order they were enqueued. */
  readonly orderKey?: string;
}

export interface Enqueued<R> {
  readonly key: string;
  /** False: the intent was known already, and this is the state it is in. */
  readonly created: boolean;
  readonly state: State;
  /** confirmed: what it came to. */
  readonly result?: R;
  /** confirmed, and its result was not kept: why. */
  readonly resultOmitted?: string;
}

const OPTIONS = new Set("tx dueAt delay expires priority orderKey scope version tenant agent".split(" "));
const HIGHEST_PRIORITY = 9;
const LONGEST_ORDER_KEY = 1_024;

const KEPT_UNTIL_DONE = Symbol("kept until done");

/** Options for a part of something longer: once failed it is kept without an end, so that the rest never goes on without it. */
export function keptUntilDone<O extends EnqueueOptions>(options: O): O {
  return { ...options, [KEPT_UNTIL_DONE]: true };
}

/** What the options say, checked once for all intents of a call. */
export interface Terms {
  readonly dueAt: number | null;
  readonly delayMs: number;
  readonly notAfter: number | null;
  readonly expiresMs: number | null;
  readonly priority: number;
  readonly orderKey: string | null;
  readonly keptUntilDone: boolean;
}

export function readTerms(options: EnqueueOptions, action: string): Terms {
  for (const option in options) {
    if (OPTIONS.has(option)) continue;
    throw noSuchOption(`${action}.enqueue`, option, OPTIONS);
  }
  const where = (option: string) => `${action}.enqueue: ${option}`;
  const { dueAt, delay, expires, priority = 0, orderKey = null } = options;
  if (dueAt !== undefined && delay !== undefined)
    throw configError(`${where("dueAt")} and delay say the same thing twice. Give one of them.`);
  if (!Number.isInteger(priority) || priority < 0 || priority > HIGHEST_PRIORITY)
    throw configError(
      `${where("priority")} is ${String(priority)}; it takes a whole number from 0 to ${HIGHEST_PRIORITY}.`,
    );
  if (
    orderKey !== null &&
    (typeof orderKey !== "string" || orderKey.trim() === "" || orderKey.length > LONGEST_ORDER_KEY)
  )
    throw configError(`${where("orderKey")} takes a string of 1 to ${LONGEST_ORDER_KEY} characters, not blank.`);
  const unstorable = orderKey === null ? null : unstorableIn(orderKey);
  if (unstorable !== null) throw configError(`${where("orderKey")}: ${unstorable}. Leave that character out.`);
  return {
    dueAt: dueAt === undefined ? null : instant(dueAt, where("dueAt")),
    delayMs: delay === undefined ? 0 : durationMs(delay, where("delay")),
    notAfter: expires instanceof Date ? instant(expires, where("expires")) : null,
    expiresMs: expires === undefined || expires instanceof Date ? null : durationMs(expires, where("expires")),
    priority,
    orderKey,
    keptUntilDone: KEPT_UNTIL_DONE in options,
  };
}

function instant(value: Date | number, where: string): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (typeof ms === "number" && Number.isFinite(ms) && ms >= 0) return Math.round(ms);
  throw configError(`${where}: ${String(value)} is not a moment. Give a Date, or milliseconds since 1970.`);
}

/** With a transaction: written in it, gone with it. Without: concurrent enqueues share one commit. */
export async function enqueue(
  engine: Engine,
  call: Call,
  terms: Terms,
  { view, secret }: { readonly view: TransactionView | null; readonly secret: CallDefaults["secret"] },
): Promise<Enqueued<unknown>> {
  await requireStorableInput(call, secret);
  const { ledger } = engine.services;
  const { unguarded } = engine.services;
  if (view !== null) unguarded.requireWritten(call, `${call.definition.name}.enqueue`);
  else await unguarded.writeOf(call);
  const admission = ledger.admits(call.definition.policy.doubt.kind);
  if (admission !== null) await admission;
  const line = terms.orderKey === null ? undefined : lineFor(call, terms.orderKey, secret);
  const holder = engine.services.newHolder();
  const swaps = view === null ? aliasSwapsOf(ledger) : aliasSwapsWithin(ledger, view);
  let at = call.former === undefined || call.former.length === 0 ? call : (await locate(swaps, call)).call;
  for (let hop = 0; ; hop += 1) {
    const source = enqueueOf(engine, at, terms, { line, holder });
    const put = () => (view === null ? ledger.apply(null, source) : applyWithin(engine, view, source));
    const applied = line === undefined ? await put() : await inLine(engine, line, view, put);
    const target = applied.ok ? null : aliasTarget(applied.stored?.record, ledger.instant().now);
    if (target === null || hop === MOST_HOPS)
      return answer(engine, at, applied, { holder, inTransaction: view !== null });
    at = (await follow(swaps, at, target)).call;
  }
}

/** Only what this call would queue is checked, before it is recorded. Null: nothing stands against it. */
export async function stoppedEnqueue(
  engine: Engine,
  asked: Call,
  terms: Terms,
  {
    view,
    secret,
    tx,
  }: { readonly view: TransactionView | null; readonly secret: CallDefaults["secret"]; readonly tx: unknown },
): Promise<Outcome<unknown> | null> {
  if (asked.definition.check === undefined) return null;
  await requireStorableInput(asked, secret);
  const { ledger, newHolder } = engine.services;
  const { call, stored } = await peek(view === null ? aliasSwapsOf(ledger) : aliasSwapsWithin(ledger, view), asked);
  const current = stored?.record ?? null;
  const holder = newHolder();
  const event = enqueueOf(engine, call, terms, { line: undefined, holder })(current);
  const change = event === null ? null : transition(current, event, ledger.instant());
  const queues = change?.ok === true && change.record.state === "pending" && change.record.holder === holder;
  return queues ? stoppedByCheck(engine.services, call, tx) : null;
}

// An alias that leads to another one is followed in one step. More of them come about only while others write them.
const MOST_HOPS = 8;

type Source = (current: LedgerRecord | null) => LedgerEvent | null;

interface Enqueuer {
  readonly line: string | undefined;
  readonly holder: string;
}

function enqueueOf(engine: Engine, call: Call, terms: Terms, { line, holder }: Enqueuer): Source {
  const { payloads, ledger } = engine.services;
  return (current) => {
    const other = current === null ? null : otherInputIn(engine, call, current);
    if (other !== null && other.meets !== "new-round") return null;
    const { now } = ledger.instant();
    // Followed, and not changed: an alias is kept as long as its record, not as long as this call asks for.
    if (aliasTarget(current, now) !== null) return null;
    const dueAt = terms.dueAt ?? now + terms.delayMs;
    const intent = intentOf(call, current, payloads);
    if (intent.input !== null && "omitted" in intent.input) throw inputDoesNotFit(call, intent.input.omitted);
    const work = workTerms(terms, dueAt, line);
    const otherInput = other !== null;
    return { type: "enqueue", holder, intent: knownUntil(intent, work?.notAfter), dueAt, terms: work, otherInput };
  };
}

/** Until its deadline it may be enqueued again as the same intent, so it is known until then, however short `keep` is. */
function knownUntil(intent: Intent, notAfter: number | undefined): Intent {
  if (notAfter === undefined) return intent;
  return { ...intent, guardUntil: Math.max(intent.guardUntil ?? 0, notAfter) };
}

/** A record of an order is inserted without a place; it gets one right after. */
function workTerms(
  { notAfter, expiresMs, priority, keptUntilDone }: Terms,
  dueAt: number,
  line: string | undefined,
): WorkTerms | null {
  const until = notAfter ?? (expiresMs === null ? null : dueAt + expiresMs);
  if (until === null && priority === 0 && line === undefined && !keptUntilDone) return null;
  return {
    ...(until !== null && { notAfter: until }),
    ...(priority !== 0 && { priority }),
    ...(line !== undefined && { line }),
    ...(keptUntilDone && { keptUntilDone }),
  };
}

/** By the oldest name: processes with an earlier name of the action, and those with this one, enqueue into one order. */
function lineFor({ tenant, definition }: Call, orderKey: string, secret: CallDefaults["secret"]): string {
  const { name, formerly } = definition;
  const oldest = formerly.findLast((one) => one.name !== name);
  return lineKey({ tenant, action: oldest?.name ?? name }, orderKey, secret);
}

async function inLine(
  engine: Engine,
  line: string,
  view: TransactionView | null,
  put: () => Promise<Applied>,
): Promise<Applied> {
  const { ledger } = engine.services;
  let applied: Applied | null = null;
  const insert = async () => {
    applied = await put();
    return applied.stored;
  };
  if (view === null) await inTurn(engine, line, (known) => insertAndPlace(engine, line, insert, known));
  else await insertInLine(swapsWithin(ledger, view), line, insert);
  return applied as unknown as Applied;
}

const PLACE_TRIES = 3;
const PLACE_PAUSE_MS = 25;

/** A reply that got lost between the steps is made good here: each step may be repeated. */
async function insertAndPlace(
  engine: Engine,
  line: string,
  insert: () => Promise<Stored | null>,
  known: KnownNote | null,
): Promise<KnownNote | null> {
  const { ledger, clock } = engine.services;
  const swaps = swapsOf(ledger);
  let inserted: Stored | null = null;
  const insertOnce = async () => {
    inserted = await insert();
    return inserted;
  };
  for (let tries = 1; ; tries += 1) {
    try {
      if (inserted === null) return await insertInLine(swaps, line, insertOnce, known);
      await place(swaps, inserted);
      return null;
    } catch (error) {
      // Without the insert there is nothing to place. The ledger has repeated that write by itself.
      if (inserted === null || tries >= PLACE_TRIES) throw error;
      await sleep(clock, PLACE_PAUSE_MS * tries);
    }
  }
}

interface LineTurns {
  /** The last caller in turn, by order. */
  readonly waiting: Map<string, Promise<void>>;
  /** The notes as this process left them. */
  readonly known: Map<string, KnownNote>;
}

const MOST_KNOWN = 1_000;
// An older note may have been swept and written anew under the same revision.
const KNOWN_FOR_MS = 60_000;
const turns = new WeakMap<Engine, LineTurns>();

/** Callers of one process with one order take turns, so that they do not swap its note from under each other. */
async function inTurn(
  engine: Engine,
  line: string,
  work: (known: KnownNote | null) => Promise<KnownNote | null>,
): Promise<void> {
  const { waiting, known } = turns.get(engine) ?? { waiting: new Map(), known: new Map() };
  turns.set(engine, { waiting, known });
  const mine = (waiting.get(line) ?? Promise.resolve()).then(async () => {
    const note = known.get(line) ?? null;
    known.delete(line);
    const recent = note !== null && engine.services.ledger.instant().now - note.record.updatedAt < KNOWN_FOR_MS;
    const left = await work(recent ? note : null);
    if (known.size >= MOST_KNOWN) known.clear();
    if (left !== null) known.set(line, left);
  });
  const done = mine.catch(() => {});
  waiting.set(line, done);
  try {
    await mine;
  } finally {
    if (waiting.get(line) === done) waiting.delete(line);
  }
}

/** The same swap as the ledger's, on the caller's own connection. */
async function applyWithin(engine: Engine, view: TransactionView, source: Source): Promise<Applied> {
  let stored: Stored | null = null;
  for (let swap = 0; swap < 3; swap += 1) {
    const event = source(stored?.record ?? null);
    if (event === null) return { ok: false, refusal: "exists", stored };
    const change = transition(stored?.record ?? null, event, engine.services.ledger.instant());
    if (!change.ok) return { ok: false, refusal: change.refusal, stored };
    const { record } = change;
    const [result] = await view.write([{ record, expected: stored?.version ?? null }]);
    if (result?.ok) return { ok: true, stored: { record, version: result.version } };
    stored = result?.current ?? null;
  }
  return { ok: false, refusal: "exists", stored };
}

function otherInputIn(engine: Engine, call: Call, record: LedgerRecord): Other | null {
  const at = engine.services.ledger.instant();
  return aliasTarget(record, at.now) === null ? otherInputOf(call, record, at) : null;
}

function answer(
  engine: Engine,
  call: Call,
  applied: Applied,
  { holder, inTransaction }: { readonly holder: string; readonly inTransaction: boolean },
): Enqueued<unknown> {
  const { key, definition } = call;
  const seen = { type: "in_transaction", action: definition.name, key, ...by(call) } as const;
  const { events, payloads, prevented } = engine.services;
  const record = applied.stored?.record;
  if (record === undefined) {
    throw new NevertwiceError(
      "IN_FLIGHT",
      `${definition.name}.enqueue: another transaction is recording the same intent and has not ended. Commit or roll back, then call again.`,
      { key },
    );
  }
  const other = applied.ok ? null : otherInputIn(engine, call, record);
  // Not queued, and not what the caller may take for queued: it is told, as a call would be.
  if (other?.meets === "in-doubt") {
    prevented.count(call, "in-doubt");
    throw errorForOutcome(withDiffers(engine.describe(record) as Outcome<unknown>, other), definition.name);
  }
  if (other?.meets === "conflict") {
    const { differs } = other;
    prevented.count(call, "conflict");
    if (inTransaction) events.emit({ ...seen, what: "conflict" });
    else events.emit({ type: "conflict", action: definition.name, key, ...by(call), differs });
    throw errorForOutcome({ status: "conflict", key, differs }, definition.name);
  }
  // A repeat may have changed nothing but how long the intent is known.
  const queued = applied.ok && (record.state === "pending" ? record.holder === holder : !isSettled(record));
  const created = queued && record.attempt === 0 && record.createdAt === record.updatedAt;
  if (queued && inTransaction) events.emit({ ...seen, what: "enqueued" });
  else if (queued) events.emit({ type: "enqueued", action: definition.name, key, ...by(call), created });
  const cause = queued ? null : preventedBy(engine.describe(record));
  if (cause !== null) prevented.count(call, cause);
  const done = record.state === "confirmed" ? payloads.load(record, "result") : null;
  if (done?.omitted !== undefined) return { key, created, state: record.state, resultOmitted: done.omitted };
  return { key, created, state: record.state, ...(done !== null && { result: done.value }) };
}
