/** The outbox's front door: an intent is recorded, in the caller's transaction if one is given, for a worker to run. */
import { type Duration, durationMs } from "../core/duration.ts";
import { configError, NevertwiceError, noSuchOption } from "../core/errors.ts";
import { differing } from "../core/fingerprint.ts";
import { errorForOutcome } from "../core/outcome.ts";
import { expired, type LedgerRecord, type State, type WorkTerms } from "../core/record.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Stored, TransactionView } from "../core/store.ts";
import { type LedgerEvent, transition } from "../core/transition.ts";
import { type Call, type CallDefaults, type CallOptions, intentOf } from "./call.ts";
import type { Engine } from "./engine.ts";
import { inputDoesNotFit, requireStorableInput } from "./enqueued-input.ts";
import type { Applied } from "./ledger.ts";
import { appendToLine, appendWithin, lineOf } from "./line.ts";

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
}

const OPTIONS = new Set("tx dueAt delay expires priority orderKey scope version tenant".split(" "));
const HIGHEST_PRIORITY = 9;
const LONGEST_ORDER_KEY = 1_024;

/** What the options say, checked once for all intents of a call. */
export interface Terms {
  readonly dueAt: number | null;
  readonly delayMs: number;
  readonly notAfter: number | null;
  readonly expiresMs: number | null;
  readonly priority: number;
  readonly orderKey: string | null;
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
  const admission = ledger.admits(call.definition.policy.doubt.kind);
  if (admission !== null) await admission;
  const put = (after?: string) => {
    const source = enqueueOf(engine, call, terms, { after, secret });
    return view === null ? ledger.apply(null, source) : applyWithin(engine, view, source);
  };
  const applied =
    terms.orderKey === null ? await put() : await inLine(engine, call, terms.orderKey, { view, put, secret });
  return answer(engine, call, applied, view !== null);
}

type Source = (current: LedgerRecord | null) => LedgerEvent | null;

function enqueueOf(
  engine: Engine,
  call: Call,
  terms: Terms,
  { after, secret }: { after: string | undefined; secret: CallDefaults["secret"] },
): Source {
  const { payloads, ledger, newHolder } = engine.services;
  const holder = newHolder();
  return (current) => {
    if (current !== null && conflictOf(engine, call, current) !== null) return null;
    const { now } = ledger.instant();
    const dueAt = terms.dueAt ?? now + terms.delayMs;
    const intent = intentOf(call, current, payloads);
    if (intent.input !== null && "omitted" in intent.input) throw inputDoesNotFit(call, intent.input.omitted);
    return { type: "enqueue", holder, intent, dueAt, terms: workTerms(call, terms, { dueAt, after, secret }) };
  };
}

function workTerms(
  call: Call,
  { notAfter, expiresMs, priority, orderKey }: Terms,
  { dueAt, after, secret }: { dueAt: number; after: string | undefined; secret: CallDefaults["secret"] },
): WorkTerms | null {
  const until = notAfter ?? (expiresMs === null ? null : dueAt + expiresMs);
  if (until === null && priority === 0 && orderKey === null) return null;
  return {
    ...(until !== null && { notAfter: until }),
    ...(priority !== 0 && { priority }),
    ...(orderKey !== null && { line: lineFor(call, orderKey, secret).key }),
    ...(after !== undefined && { after }),
  };
}

function lineFor(call: Call, orderKey: string, secret: CallDefaults["secret"]) {
  const { name: action, policy } = call.definition;
  return lineOf({ tenant: call.tenant, action, keepMs: policy.keepMs }, orderKey, secret);
}

async function inLine(
  engine: Engine,
  call: Call,
  orderKey: string,
  how: {
    readonly view: TransactionView | null;
    readonly put: (after?: string) => Promise<Applied>;
    readonly secret: CallDefaults["secret"];
  },
): Promise<Applied> {
  const { ledger } = engine.services;
  let applied: Applied | null = null;
  const insert = async (after: string | undefined) => {
    applied = await how.put(after);
    return applied.ok ? applied.stored : null;
  };
  const entry = { key: call.key, insert };
  const line = lineFor(call, orderKey, how.secret);
  const now = () => ledger.instant();
  if (how.view === null) await inTurn(engine, line.key, () => appendToLine(ledger.store, line, entry, now));
  else await appendWithin(how.view, line, entry, now);
  return applied as unknown as Applied;
}

const turns = new WeakMap<Engine, Map<string, Promise<void>>>();

/** Callers of one process with one line take turns, so that they do not swap its note from under each other. */
async function inTurn(engine: Engine, line: string, work: () => Promise<void>): Promise<void> {
  const waiting = turns.get(engine) ?? new Map<string, Promise<void>>();
  turns.set(engine, waiting);
  const mine = (waiting.get(line) ?? Promise.resolve()).then(work);
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

/** The guarded fields that make the record another input's; what surely never happened may be corrected. */
function conflictOf(engine: Engine, call: Call, record: LedgerRecord): readonly string[] | null {
  if (expired(record, engine.services.ledger.instant().now)) return null;
  if (record.state === "failed" && !record.final) return null;
  const { guarded } = differing(record.fingerprint, call.print, call.definition.free);
  return guarded.length === 0 ? null : guarded;
}

function answer(engine: Engine, call: Call, applied: Applied, inTransaction: boolean): Enqueued<unknown> {
  const { key, definition } = call;
  const seen = { type: "in_transaction", action: definition.name, key } as const;
  const { events, payloads } = engine.services;
  const record = applied.stored?.record;
  if (record === undefined) {
    throw new NevertwiceError(
      "IN_FLIGHT",
      `${definition.name}.enqueue: another transaction is recording the same intent and has not ended. Commit or roll back, then call again.`,
      { key },
    );
  }
  const differs = applied.ok ? null : conflictOf(engine, call, record);
  if (differs !== null) {
    if (inTransaction) events.emit({ ...seen, what: "conflict" });
    else events.emit({ type: "conflict", action: definition.name, key, differs });
    throw errorForOutcome({ status: "conflict", key, differs }, definition.name);
  }
  const created = applied.ok && record.attempt === 0 && record.createdAt === record.updatedAt;
  if (applied.ok && inTransaction) events.emit({ ...seen, what: "enqueued" });
  else if (applied.ok) events.emit({ type: "enqueued", action: definition.name, key, created });
  const done = record.state === "confirmed" ? payloads.load(record, "result") : null;
  return { key, created, state: record.state, ...(done !== null && { result: done.value }) };
}
