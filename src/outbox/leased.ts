/** A record as a worker got it: whether it may begin, and how it ends. */
import { isStoreUnavailable, NevertwiceError } from "../core/errors.ts";
import type { LaneAnswer } from "../core/limit.ts";
import { type LedgerRecord, leaseAlive } from "../core/record.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Stored } from "../core/store.ts";
import type { Call, CallDefaults } from "../engine/call.ts";
import { sleep } from "../engine/clock.ts";
import type { Definition } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { type End, type Ending as ExecutionEnding, executeThen } from "../engine/execution.ts";
import { type LaneKey, type Lanes, laneOf } from "../engine/lanes.ts";
import { giveBack, giveBackLater, holdOf, leaveToOthers, parkLeased, staleSince } from "../engine/leased-record.ts";
import type { Applied } from "../engine/ledger.ts";
import { printOfInput } from "../engine/make-call.ts";
import { isInputMissing, missingInput } from "../engine/missing-input.ts";
import { parseInput } from "../engine/standard-schema.ts";
import { elsewhere, hasOtherKeys } from "./former-keys.ts";

/** How a worker's hold on a record ended. */
export type Ending =
  | { readonly as: "done" }
  /** Surely did not happen; tried again at `at`. */
  | { readonly as: "retry"; readonly at: number }
  /** The dead letter. */
  | { readonly as: "failed"; readonly why: "tries" | "refused" | "expired" | "unreadable" }
  | { readonly as: "unknown"; readonly stored: Stored; readonly call: Call }
  /** Not begun: its destination is full, or another record of its order comes first. `soon`: that is under way. */
  | { readonly as: "given-back"; readonly at: number; readonly soon: boolean; readonly stored: Stored }
  /** Somebody else has it by now. */
  | { readonly as: "moved" };

export interface LeasedServices {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
  readonly lanes: Lanes;
  /** False from stop() or close() on: what has not begun is handed back. */
  readonly mayBegin: () => boolean;
}

/** Whoever waits for how it ended. One of these is called, once. */
export interface LeasedListener {
  ended(ending: Ending): void;
  crashed(error: unknown): void;
}

export function runLeased(services: LeasedServices, definition: Definition, stored: Stored): Promise<Ending> {
  return new Promise((ended, crashed) => runLeasedThen(services, definition, stored, { ended, crashed }));
}

/** The same for a listener: the plain way goes from callback to callback, as in a call. */
export function runLeasedThen(
  services: LeasedServices,
  definition: Definition,
  stored: Stored,
  listener: LeasedListener,
): void {
  const { schema, limit } = definition;
  const { unguarded, ledger } = services.engine.services;
  const readied = inputOf(services, stored);
  // A call of this process runs it without the ledger, or has: that is written first.
  if (unguarded.has(stored.record.key))
    tell(listener, giveBack(services, stored, ledger.instant().now + UNGUARDED_PAUSE_MS));
  else if ("lacks" in readied) tell(listener, leaveToOthers(services, stored, readied.lacks));
  else if ("why" in readied) tell(listener, parkLeased(services, stored, readied.error, readied.why));
  else if (schema !== undefined) tell(listener, runParsed(services, definition, stored, readied.value));
  else {
    const call = new LeasedCall(services, definition, stored.record, { given: readied.value, input: readied.value });
    if (isInputMissing(stored.record, call, definition.free))
      tell(listener, parkLeased(services, stored, missingInput(stored.record), "unreadable"));
    else if (hasOtherKeys(definition)) tell(listener, runCall(services, call, stored));
    else if (limit !== null) tell(listener, limited(services, call, stored));
    else markThenRun(services, call, stored, listener);
  }
}

/**
 * The send mark is written right before the effect: what a worker leased and did not begin is known not to be sent. What
 * prepares, or marks by hand, does so itself.
 */
function markThenRun(services: LeasedServices, call: Call, leased: Stored, listener: LeasedListener): void {
  const { prepare, manual } = call.definition;
  // Leased to `sent` by a process that then stood still: the record may be unknown by now, and was not begun.
  const tooLate =
    leased.record.state === "sent" && !leaseAlive(leased.record, services.engine.services.ledger.instant());
  if (tooLate || !services.mayBegin()) tell(listener, giveBackNow(services, leased));
  else if (prepare !== undefined || manual || leased.record.state === "sent") begin(services, call, leased, listener);
  else {
    const run = (applied: Applied) => {
      if (!applied.ok) tell(listener, notMarked(services, leased, applied.refusal));
      else if (!services.mayBegin()) tell(listener, giveBackNow(services, applied.stored));
      else begin(services, call, applied.stored, listener);
    };
    // A promise of the worker's: the effect runs in the worker's async context, not in that of who shared the write.
    mark(services, call, leased).then(run, (error: unknown) => {
      // Written or not, and only the answer is missing: nothing was begun under it.
      if (isStoreUnavailable(error)) giveBackLater(services, leased);
      listener.crashed(error);
    });
  }
}

function mark({ engine }: LeasedServices, call: Call, leased: Stored): Promise<Applied> {
  const { leaseMs, roomMs: timeoutMs } = call.definition.policy;
  const event = { type: "mark", hold: holdOf(leased.record), leaseMs, timeoutMs, draft: null } as const;
  return engine.services.ledger.apply(leased, event);
}

/** The process stood still past its lease: while nobody else has the record, it need not wait for the lapse to be noticed. */
function notMarked(services: LeasedServices, leased: Stored, refusal: Refusal): Promise<Ending> {
  return refusal === "lease-lost" ? giveBackNow(services, leased) : Promise.resolve({ as: "moved" });
}

function begin({ engine }: LeasedServices, call: Call, stored: Stored, listener: LeasedListener): void {
  try {
    executeThen(engine.services, { call, stored, input: call.input }, new PlainEnding(call, listener));
  } catch (error) {
    listener.crashed(error);
  }
}

function tell(listener: LeasedListener, work: Promise<Ending>): void {
  work.then(
    (ending) => listener.ended(ending),
    (error) => listener.crashed(error),
  );
}

class PlainEnding implements ExecutionEnding {
  readonly #call: Call;
  readonly #listener: LeasedListener;

  constructor(call: Call, listener: LeasedListener) {
    this.#call = call;
    this.#listener = listener;
  }

  ended(end: End): void {
    this.#listener.ended(endingOf(this.#call, end));
  }

  crashed(error: unknown): void {
    this.#listener.crashed(error);
  }
}

/** Its stored input, or why it cannot be run at all. */
function inputOf(
  { engine }: LeasedServices,
  { record }: Stored,
):
  | { readonly value: unknown }
  | { readonly lacks: string }
  | { readonly error: unknown; readonly why: "expired" | "unreadable" } {
  const { ledger, payloads } = engine.services;
  const stale = record.terms === null ? null : staleSince(record, ledger.instant().now);
  if (stale !== null) return { error: stale, why: "expired" };
  const lacks = payloads.lacks(record);
  if (lacks !== null) return { lacks };
  try {
    const input = payloads.load(record, "input");
    if (input.omitted === undefined) return input;
    return { error: unreadable(record, input.omitted), why: "unreadable" };
  } catch (error) {
    return { error, why: "unreadable" };
  }
}

async function runParsed(services: LeasedServices, definition: Definition, stored: Stored, given: unknown) {
  let input: unknown;
  try {
    input = await parseInput(definition.schema as NonNullable<typeof definition.schema>, given, definition.name);
  } catch (error) {
    return parkLeased(services, stored, error, "unreadable");
  }
  const call = new LeasedCall(services, definition, stored.record, { given, input });
  if (isInputMissing(stored.record, call, definition.free))
    return parkLeased(services, stored, missingInput(stored.record), "unreadable");
  return runCall(services, call, stored);
}

interface Inputs {
  readonly given: unknown;
  readonly input: unknown;
}

async function runCall(services: LeasedServices, call: Call, stored: Stored): Promise<Ending> {
  const settled = hasOtherKeys(call.definition) ? await elsewhere(services, call, stored) : null;
  if (settled !== null) return settled;
  return call.definition.limit === null ? markAndRun(services, call, stored) : limited(services, call, stored);
}

function markAndRun(services: LeasedServices, call: Call, stored: Stored): Promise<Ending> {
  return new Promise((ended, crashed) => markThenRun(services, call, stored, { ended, crashed }));
}

/** The destination's own word: a begin now, a begin soon, or another time. */
async function limited(services: LeasedServices, call: Call, stored: Stored): Promise<Ending> {
  const { clock, ledger } = services.engine.services;
  const { policy, limit } = call.definition;
  if (limit === null) return markAndRun(services, call, stored);
  let lane: LaneKey;
  try {
    lane = laneOf(
      services.lanes,
      call,
      limit.by,
      `Correct it, then bring the intent back: nevertwice retry ${call.key} --reason "…"`,
    );
  } catch (error) {
    return parkLeased(services, stored, error, "unreadable");
  }
  const id = `${call.key.slice(4, 20)}.${stored.record.fence}`;
  // An attempt prepares and runs no longer than its timeout each; whoever dies keeps its slot no longer than this.
  let answer: LaneAnswer;
  try {
    answer = await services.lanes.enter(lane, limit, { id, holdMs: 2 * policy.timeoutMs + policy.leaseMs });
  } catch (error) {
    await giveBackNow(services, stored).catch(() => {});
    throw error;
  }
  if (!answer.go) return giveBack(services, stored, answer.at, answer.opensInMs <= WAITED_OUT_MS);
  const waitMs = answer.at - ledger.instant().now;
  if (waitMs > 0) await sleep(clock, waitMs);
  const startedAt = clock.monotonic();
  try {
    return await markAndRun(services, call, stored);
  } finally {
    services.lanes.leave(lane, limit, id, clock.monotonic() - startedAt);
  }
}

// A limit that lets the next one begin within this time is waited out by drain(); a slower one is left to a later run.
const WAITED_OUT_MS = 60_000;

function endingOf(call: Call, end: End): Ending {
  switch (end.kind) {
    case "done":
      return { as: "done" };
    case "failed":
      if (end.retryAt !== null) return { as: "retry", at: end.retryAt };
      return { as: "failed", why: end.final ? "refused" : "tries" };
    case "unknown":
      return { as: "unknown", stored: end.stored, call };
    case "moved":
      return { as: "moved" };
  }
}

const UNGUARDED_PAUSE_MS = 1_000;

function giveBackNow(services: LeasedServices, stored: Stored): Promise<Ending> {
  return giveBack(services, stored, services.engine.services.ledger.instant().now);
}

function unreadable({ action, key }: LedgerRecord, omitted: string): NevertwiceError {
  return new NevertwiceError(
    "INVALID_INPUT",
    `${action}: its stored input cannot be read: ${omitted}. Put right what is missing, then bring it back: nevertwice retry ${key} --reason "…"`,
    { key },
  );
}

/** A class, not a literal: a getter in a literal makes every object of its own kind, slow to make and many times the size. */
class LeasedCall implements Call {
  readonly definition: Definition;
  readonly key: string;
  readonly tenant: string;
  readonly version: number;
  readonly scope: string | null;
  readonly agent: string | null;
  readonly given: unknown;
  readonly input: unknown;
  readonly keep: Call["keep"];
  readonly waitMs = 0;
  readonly #defaults: CallDefaults;
  #print: Call["print"] | null = null;

  constructor({ defaults }: LeasedServices, definition: Definition, record: LedgerRecord, { given, input }: Inputs) {
    this.definition = definition;
    this.key = record.key;
    this.tenant = record.tenant;
    this.version = record.version;
    this.scope = record.scope;
    // A worker acts on behalf of whoever enqueued it.
    this.agent = record.agent;
    // The record has it already, from who enqueued it.
    this.keep = { keepMs: record.keepMs, guardUntil: null, tooShortFor: null };
    this.given = given;
    this.input = input;
    this.#defaults = defaults;
  }

  /** Only who settles a doubt compares inputs: not worth its digests on the plain way. */
  get print(): Call["print"] {
    this.#print ??= printOfInput(this.definition, this.input, this.key, this.#defaults);
    return this.#print;
  }
}
