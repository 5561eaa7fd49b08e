/**
 * Random histories through the state machine, under compare-and-swap, with several actors, a steady clock that only
 * moves on and a wall clock that jumps. The model keeps its own books of who may act until when; it never reads them
 * from the record.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { keepFrom } from "./keep.ts";
import { lacksResult, RESULT_NOT_GIVEN } from "./kept-result.ts";
import { expired, HISTORY_LIMIT, type Instant, type LedgerRecord, leaseAlive } from "./record.ts";
import { type Hold, type Intent, type LedgerEvent, transition } from "./transition.ts";

type Machine = typeof transition;

const LEASE_MS = 100;
const RUNS = 3_000;
const ACTORS = ["a", "b", "c"] as const;
const RESULT = { json: "1" };
const ERROR = { name: "Error", message: "no" };
const BY = { by: "ana", reason: "asked" };

// ---- what may happen ----

type Kind = LedgerEvent["type"];

type Step =
  | { readonly do: "pass"; readonly steadyMs: number; readonly wallMs: number }
  | { readonly do: "reboot" }
  /** Reads the record and the clock, to decide on them later. */
  | { readonly do: "look"; readonly actor: number }
  | {
      readonly do: "act";
      readonly actor: number;
      readonly kind: Kind;
      /** Decide on what was looked at before (and at that time), or on the record as it is. */
      readonly late: boolean;
      /** Which of the holds ever handed out is used; most often the last. */
      readonly holdBack: number;
      readonly choice: number;
    };

// Weighted towards what moves a record on; the rest comes up often enough in 60 steps.
const kinds = fc.constantFrom<Kind>(
  ...(["claim", "claim", "claim", "mark", "mark", "heartbeat", "confirm", "not-sent", "doubt", "doubt"] as const),
  ...([
    "lapse",
    "lapse",
    "resend",
    "resend",
    "probed",
    "probed",
    "resolve",
    "retry",
    "enqueue",
    "give-back",
    "bring-forward",
    "retain",
    "delivered",
    "forget",
    "ran-unguarded",
  ] as const),
);

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("pass" as const),
      steadyMs: fc.nat(150),
      wallMs: fc.oneof(fc.nat(150), fc.integer({ min: -600_000, max: 3_600_000 })),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "reboot" as const }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("look" as const), actor: fc.nat(2) }) },
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constant("act" as const),
      actor: fc.nat(2),
      kind: kinds,
      late: fc.boolean(),
      holdBack: fc.oneof(fc.constant(0), fc.nat(3)),
      choice: fc.nat(5),
    }),
  },
);

/** With the input on record, or with another one. */
function intentOf(choice: number, at: Instant, seen: LedgerRecord | null): Intent {
  const known = seen?.fingerprint.guarded || "a";
  const other = known === "a" ? "b" : "a";
  const fingerprint = { guarded: choice > 3 ? other : known, free: null, fields: {} };
  const keepMs = choice === 0 ? null : 5_000;
  // Some have a deadline: until then the intent is to be known.
  const guardUntil = choice % 2 === 0 ? null : at.now + choice * 10_000;
  return {
    ...{ key: "nt1_k", tenant: "", action: "mail", version: 1, scope: null, fingerprint, input: null },
    ...{ keepMs, guardUntil },
    // Some are calls that are guarded until their answer has arrived.
    untilDelivered: choice === 3,
  };
}

function eventOf(step: Extract<Step, { do: "act" }>, hold: Hold, seen: LedgerRecord | null, at: Instant): LedgerEvent {
  const holder = ACTORS[step.actor] as string;
  const { choice } = step;
  const newRound = choice % 2 === 0;
  const otherInput = choice > 3;
  switch (step.kind) {
    case "enqueue":
      return { type: "enqueue", intent: intentOf(choice, at, seen), dueAt: at.now + (choice - 2) * 50, otherInput };
    case "claim":
      return {
        type: "claim",
        intent: intentOf(choice, at, seen),
        to: choice < 3 ? "claimed" : "sent",
        holder,
        leaseMs: LEASE_MS,
        newRound,
        otherInput,
      };
    case "resend": {
      const permits = [
        { because: "asked-for" },
        { because: "provider-key", windowMs: 300 },
        { because: "held", forMs: 100 },
      ] as const;
      const permit = permits[choice % 3] ?? permits[0];
      return { type: "resend", permit, holder, leaseMs: LEASE_MS, newRound };
    }
    case "mark":
      return { type: "mark", hold, leaseMs: LEASE_MS, timeoutMs: choice === 5 ? LEASE_MS + 1 : 80, draft: null };
    case "heartbeat":
      return { type: "heartbeat", hold, leaseMs: LEASE_MS };
    case "confirm":
      return { type: "confirm", hold, result: RESULT };
    case "not-sent":
      return { type: "not-sent", hold, error: ERROR, retryAt: choice < 3 ? at.now : null, final: choice === 5 };
    case "give-back":
      return { type: "give-back", hold, dueAt: choice < 3 ? at.now : at.now + 500 };
    case "bring-forward":
      return { type: "bring-forward" };
    case "doubt":
      return { type: "doubt", hold, why: "reset", error: null };
    case "lapse":
      return choice === 5 ? { type: "lapse", gone: true } : { type: "lapse" };
    case "probed": {
      const notDone = { as: "not-done" as const, noneLeft: choice === 3 };
      const held = { as: "unknown" as const, why: "it failed, and is held", error: ERROR };
      const answer = choice < 3 ? { as: "done" as const, result: RESULT } : choice === 5 ? held : notDone;
      return { type: "probed", fence: seen?.fence ?? 0, quietForMs: 40 * choice, answer };
    }
    case "resolve":
      return {
        type: "resolve",
        as: (["done", "not-done", "failed"] as const)[choice % 3] ?? "done",
        // Without the result, which a later one may add.
        result: choice === 0 ? RESULT_NOT_GIVEN.resolve : choice === 3 ? RESULT : null,
        ...BY,
      };
    case "retry":
      return { type: "retry", ...BY };
    case "retain":
      return { type: "retain", keepMs: choice % 2 === 0 ? null : 5_000 };
    case "delivered":
      return { type: "delivered", fence: hold.fence };
    case "forget":
      return { type: "forget", evenInDoubt: choice === 5 };
    case "ran-unguarded": {
      const ends = [
        { as: "done", result: RESULT },
        { as: "unknown", why: "reset", error: null },
        { as: "failed", error: ERROR, final: choice === 5 },
      ] as const;
      // Sometimes its claim was written after all, and only the answer was lost.
      const lost = choice < 3 ? `${holder}-unguarded` : hold.holder;
      const intent = intentOf(choice, at, seen);
      return { type: "ran-unguarded", intent, holder: lost, end: ends[choice % 3] ?? ends[0] };
    }
  }
}

// ---- the world ----

interface Seen {
  readonly record: LedgerRecord | null;
  readonly version: number;
  readonly at: Instant;
}

class World {
  record: LedgerRecord | null = null;
  version = 0;
  at: Instant = { now: 1_000_000, steady: 0, epoch: "boot-0" };
  boots = 0;
  readonly seen = new Map<number, Seen>();
  /** Every hold that was ever handed out, oldest first. */
  readonly handedOut: Hold[] = [];
  /** The model's own books: who may act, and until when. */
  live: { readonly hold: Hold; readonly until: number; readonly epoch: string }[] = [];
  /** The input that each of them was handed out for, by its fence; "": it was forgotten. */
  readonly ran = new Map<number, string>();
  /** The first fence of the record that is there now. */
  began = 0;
  readonly accepted = new Set<string>();
  readonly machine: Machine;

  constructor(machine: Machine) {
    this.machine = machine;
  }

  step(step: Step): void {
    if (step.do === "pass") {
      this.at = { ...this.at, now: this.at.now + step.wallMs, steady: this.at.steady + step.steadyMs };
    } else if (step.do === "reboot") {
      // The actors die with the machine, and what they had read with them.
      this.boots += 1;
      this.at = { ...this.at, steady: 0, epoch: `boot-${this.boots}` };
      this.seen.clear();
    } else if (step.do === "look") {
      this.seen.set(step.actor, { record: this.record, version: this.version, at: this.at });
    } else {
      this.act(step);
    }
  }

  act(step: Extract<Step, { do: "act" }>): void {
    const now: Seen = { record: this.record, version: this.version, at: this.at };
    const basis = step.late ? (this.seen.get(step.actor) ?? now) : now;
    const hold = this.handedOut.at(-1 - step.holdBack) ?? { fence: 1, holder: "nobody" };
    const event = eventOf(step, hold, basis.record, basis.at);
    const change = this.machine(basis.record, event, basis.at);
    // Compare-and-swap: a decision made on an older version changes nothing.
    if (basis.version !== this.version) return;
    if (!change.ok) {
      // Nothing to do: then the intent is known for that long as it is.
      if (change.refusal === "exists" && event.type === "enqueue") checkKept(this.record, event, basis.at);
      return;
    }
    check(this, event, change.record, basis.at);
    this.book(event, change.record, basis.at);
    this.record = change.record;
    this.version += 1;
    this.accepted.add(`${event.type} → ${change.record.state}`);
  }

  book(event: LedgerEvent, next: LedgerRecord, at: Instant): void {
    const until = at.steady + LEASE_MS;
    if (next.attempt <= 1 && next.fence !== this.record?.fence && beginsAnew(this.record, event, at))
      this.began = next.fence;
    if (event.type === "forget") for (const fence of this.ran.keys()) this.ran.set(fence, "");
    if (event.type === "claim" || event.type === "resend") {
      const hold = { fence: next.fence, holder: event.holder };
      this.handedOut.push(hold);
      const intent = event.type === "claim" ? event.intent : undefined;
      this.ran.set(next.fence, (intent ?? (this.record as LedgerRecord)).fingerprint.guarded);
      this.live = [{ hold, until, epoch: at.epoch }];
    } else if (event.type === "mark" || event.type === "heartbeat") {
      this.live = [{ hold: event.hold, until, epoch: at.epoch }];
    } else if (!["enqueue", "ran-unguarded", "confirm"].includes(event.type) || next.lease === null) {
      this.live = [];
    }
  }

  /** Holds whose lease runs, by the model's books. */
  alive(at: Instant) {
    return this.live.filter(({ until, epoch }) => epoch === at.epoch && until > at.steady);
  }
}

// ---- what must hold ----

function must(condition: boolean, rule: string): void {
  if (!condition) throw new Error(`broken: ${rule}`);
}

function check(world: World, event: LedgerEvent, next: LedgerRecord, at: Instant): void {
  const before = world.record;
  const gone = beginsAnew(before, event, at);
  checkPermission(world, event, at, gone);
  checkCounters(before, event, next, gone);
  if (!gone) checkWays(before, event, next);
  if (!gone && event.type !== "retain" && event.type !== "forget")
    must(!isShorter(next.keepMs, before.keepMs), "a retention was shortened");
  if (event.type === "enqueue" || event.type === "claim") checkKept(next, event, at);
  if (event.type === "confirm") checkConfirmed(world, event.hold.fence, next);
  // Queueing what a call has begun changes nothing but who sees to its rest; another input's success, nothing but its doubt.
  const isBeside = event.type === "enqueue" || event.type === "confirm";
  if (gone || !isBeside || next.state !== before.state) checkShape(next, at);
}

/** A result is that of the input beside it. What fell out of the history is no input's. */
function checkConfirmed({ ran, record: before }: World, fence: number, next: LedgerRecord): void {
  const input = ran.get(fence);
  const { guarded } = next.fingerprint;
  if (next.state === "confirmed")
    must(
      input === undefined || guarded === input || guarded === "",
      "an input was confirmed by the success of another",
    );
  else must(before?.fingerprint.guarded !== input && next.doubted, "a success was not taken");
}

/** Past its keep a record may be begun anew; to any other event it is still the record it was. */
function beginsAnew(before: LedgerRecord | null, event: LedgerEvent, at: Instant): before is null {
  const begins = event.type === "claim" || event.type === "enqueue" || event.type === "ran-unguarded";
  return before === null || (begins && expired(before, at.now));
}

function isShorter(one: number | null, other: number | null): boolean {
  return one !== null && (other === null || one < other);
}

/** Whoever was answered may rely on it: the intent is known until the deadline that was given. */
function checkKept(record: LedgerRecord | null, event: LedgerEvent, at: Instant): void {
  const until = "intent" in event ? event.intent?.guardUntil : null;
  if (record === null || until === null || until === undefined) return;
  const settled = record.state === "confirmed" || record.state === "failed";
  const keptUntil = settled ? record.expiresAt : record.keepMs === null ? null : at.now + record.keepMs;
  must(keptUntil === null || keptUntil >= until, `${record.state}: forgotten before its deadline`);
}

function same(a: Hold, b: Hold): boolean {
  return a.fence === b.fence && a.holder === b.holder;
}

function checkPermission(world: World, event: LedgerEvent, at: Instant, gone: boolean): void {
  const alive = world.alive(at);
  const before = world.record;
  switch (event.type) {
    case "claim":
    case "resend":
      must(alive.length === 0, "two attempts were permitted at once");
      must(gone || !isFinal(before) || isCorrection(before, event), "an attempt was permitted after a final state");
      must(gone || mayCorrect(before, event), "an attempt with another input replaced what a worker is going to run");
      return;
    case "mark":
    case "heartbeat":
      must(
        alive.some(({ hold }) => same(hold, event.hold)),
        `${event.type} was permitted without a live hold`,
      );
      must(!isFinal(before), "an attempt went on after a final state");
      return;
    case "confirm":
      // Evidence of success ends whatever is under way, whoever brings it; but not of the call before.
      must(
        before?.terms?.untilDelivered !== true || event.hold.fence >= world.began,
        "a call was confirmed by the answer of the one before",
      );
      return;
    case "delivered":
      must(before?.terms?.untilDelivered === true, "a delivery ended a guard that did not say so");
      must(event.fence === before?.fence, "the delivery of another answer ended a guard");
      must(before?.state === "confirmed" || before?.state === "failed", "a delivery ended what is not settled");
      return;
    case "ran-unguarded":
      if (event.end.as === "failed")
        must(
          alive.every(({ hold }) => hold.holder === event.holder),
          "a failure while the store was down ended another attempt",
        );
      return;
    case "enqueue":
      must(alive.length === 0 || !gone, "a record under a live hold was begun anew");
      must(alive.length === 0 || event.otherInput !== true, "another input replaced that of an attempt under way");
      must(gone || mayCorrect(before, event), "another input replaced what a worker is going to run");
      return;
    case "not-sent":
    case "give-back":
    case "doubt":
      must(
        alive.every(({ hold }) => same(hold, event.hold)),
        `${event.type} of one attempt ended another`,
      );
      return;
    case "lapse":
      // A process that has ended holds nothing, whatever its lease says.
      must(alive.length === 0 || event.gone === true, "lapse took the record from under a live hold");
      return;
    default:
      must(alive.length === 0, `${event.type} took the record from under a live hold`);
  }
}

/** A refusal is about its own input. */
function isCorrection(before: LedgerRecord | null, event: LedgerEvent): boolean {
  return event.type === "claim" && event.otherInput === true && before?.state === "failed";
}

/** What waits in the queue happens as it was enqueued, until somebody has decided that it did not happen. */
function mayCorrect(before: LedgerRecord | null, event: LedgerEvent): boolean {
  if (!("otherInput" in event) || event.otherInput !== true || before === null) return true;
  const waits = before.queued && (before.state === "pending" || before.state === "claimed");
  return !waits || before.history.at(-1)?.event === "resolved-not-done";
}

function isFinal(record: LedgerRecord | null): boolean {
  return record?.state === "confirmed" || (record?.state === "failed" && record.final);
}

function checkCounters(before: LedgerRecord | null, event: LedgerEvent, next: LedgerRecord, gone: boolean): void {
  const fence = before?.fence ?? 0;
  const attempt = gone ? 0 : (before?.attempt ?? 0);
  const taken = event.type === "claim" || event.type === "resend" || wasAnother(before, event, next, gone) ? 1 : 0;
  must(next.fence >= fence, "the fence went down");
  must(next.fence === fence + taken, "the fence grows by one at each claim, and only then");
  const back = event.type === "give-back" || (event.type === "lapse" && next.state === "pending") ? 1 : 0;
  must(next.attempt === attempt + taken - back, "the attempt grows by one at each claim, and goes back if unbegun");
}

/** An attempt that the ledger had not handed out. Kept beside one that goes on, it has no number of its own. */
function wasAnother(before: LedgerRecord | null, event: LedgerEvent, next: LedgerRecord, gone: boolean): boolean {
  if (event.type !== "ran-unguarded" || next.lease !== null) return false;
  return gone || before?.holder !== event.holder || (before.state !== "claimed" && before.state !== "sent");
}

function checkWays(before: LedgerRecord, event: LedgerEvent, next: LedgerRecord): void {
  if (event.type === "forget") {
    checkForgotten(before, event.evenInDoubt, next);
    return;
  }
  const way = `${before.state} → ${next.state}`;
  // How long a record is kept may change; what it says may not.
  const retention = ({ keepMs, expiresAt, updatedAt, ...rest }: LedgerRecord) => JSON.stringify(rest);
  const said = ({ result, providerId, history, updatedAt, ...rest }: LedgerRecord) => JSON.stringify(rest);
  const other = event.type === "enqueue" && event.otherInput === true;
  const settled = before.state === "confirmed" || (before.state === "failed" && before.final && !other);
  if (event.type === "retain" || event.type === "delivered" || (event.type === "enqueue" && settled))
    must(retention(before) === retention(next), `${event.type} changed more than the retention`);
  else if (before.state === "confirmed" && event.type === "resolve")
    must(
      lacksResult(before) && said(before) === said(next),
      "resolve changed more of a confirmed record than its missing result",
    );
  else must(before.state !== "confirmed", "a confirmed record changed");
  must(way !== "sent → claimed" && way !== "unknown → claimed", `${way}: what may have happened was called unsent`);
  if (before.state === "unknown") {
    // Its own holder says that nothing was begun: believed where nobody but the silence said otherwise.
    const unbegun = event.type === "give-back" && before.history.at(-1)?.event === "lapse";
    const settles = unbegun || ["resend", "probed", "resolve", "confirm", "ran-unguarded"].includes(event.type);
    must(settles || next.state === "unknown", `a doubt was left by ${event.type}`);
  }
  if (way === "sent → pending" || way === "sent → failed") {
    must(["not-sent", "resolve", "give-back", "ran-unguarded"].includes(event.type), `${way} by ${event.type}`);
  }
  if (event.type === "enqueue" && before.state !== "failed" && !(other && before.state === "claimed"))
    must(next.state === before.state, `enqueue made it ${way}`);
  if (other) must(before.state !== "sent" && before.state !== "unknown", "a doubt was replaced by another input");
  if (event.type === "bring-forward") must(way === "pending → pending", `bring-forward made it ${way}`);
  if (event.type === "lapse") must(way === "sent → unknown" || way === "claimed → pending", `lapse made it ${way}`);
  if (before.doubted)
    must(event.type !== "give-back" && way !== "claimed → pending", "an attempt after a doubt was called unbegun");
  if (event.type === "ran-unguarded" && (before.state === "unknown" || before.doubted))
    must(next.state !== "failed", "a failure while the store was down hid a doubt");
  if (before.doubted && event.type === "not-sent") must(next.state === "unknown", "a resend's failure hid a doubt");
}

/** Nothing of it is left, it guards nothing, and a doubt is not lost unless that was said. */
function checkForgotten(before: LedgerRecord, evenInDoubt: boolean, next: LedgerRecord): void {
  const isDoubt = before.state === "unknown" || before.state === "sent" || before.doubted;
  must(!isDoubt || evenInDoubt, "a doubt was forgotten");
  must(expired(next, next.updatedAt) && next.state === "confirmed", "a forgotten record guards its key");
  const { input, draft, result, error, why, providerId, holder, terms } = next;
  const left = [input, draft, result, error, why, providerId, holder, terms].filter((value) => value !== null);
  must(left.length === 0 && next.history.length === 0 && next.fingerprint.guarded === "", "something was left");
}

function checkShape(next: LedgerRecord, at: Instant): void {
  const leased = next.state === "claimed" || next.state === "sent";
  must(leased ? leaseAlive(next, at) : next.lease === null, `${next.state} with the wrong lease`);
  const settled = next.state === "confirmed" || next.state === "failed";
  must(settled ? next.settledAt !== null : next.expiresAt === null, `${next.state} with the wrong expiry`);
  if (next.state === "sent" || next.state === "unknown")
    must(next.firstSentAt !== null, `${next.state} without a send mark`);
  must(next.history.length <= HISTORY_LIMIT, "the history outgrew its bound");
}

// ---- the property, and machines that must break it ----

function lives(machine: Machine, onEnd: (world: World) => void = () => undefined) {
  return fc.property(fc.array(steps, { maxLength: 60, size: "max" }), (history) => {
    const world = new World(machine);
    for (const step of history) world.step(step);
    onEnd(world);
  });
}

function presentHold(record: LedgerRecord | null): Hold {
  return { fence: record?.fence ?? 0, holder: record?.holder ?? "" };
}

const MUTANTS: Readonly<Record<string, readonly [broken: RegExp, machine: Machine]>> = {
  "a delivery ends any guard": [
    /a delivery ended a guard that did not say so/,
    (record, event, at) => {
      const promised = record === null ? null : { ...record, terms: { ...record.terms, untilDelivered: true } };
      return transition(event.type === "delivered" ? promised : record, event, at);
    },
  ],
  "a delivery is taken for that of the present answer": [
    /the delivery of another answer/,
    (record, event, at) =>
      transition(record, event.type === "delivered" ? { ...event, fence: record?.fence ?? 0 } : event, at),
  ],
  "a late answer counts for the call after": [
    /a call was confirmed by the answer of the one before|confirmed by the success of another/,
    (record, event, at) =>
      transition(
        record,
        event.type === "confirm" && record !== null ? { ...event, hold: presentHold(record) } : event,
        at,
      ),
  ],
  "a late success counts for whatever input is on record": [
    /confirmed by the success of another/,
    (record, event, at) =>
      transition(event.type === "confirm" && record !== null ? { ...record, history: [] } : record, event, at),
  ],
  "forgetting does not ask about doubts": [
    /a doubt was forgotten|under a live hold/,
    (record, event, at) => {
      if (event.type !== "forget") return transition(record, event, at);
      return transition(
        record === null ? null : { ...record, state: "failed", doubted: false, lease: null },
        event,
        at,
      );
    },
  ],
  "forgetting leaves the input": [
    /something was left/,
    (record, event, at) => {
      const change = transition(record, event, at);
      return change.ok && event.type === "forget" ? { ok: true, record: { ...change.record, result: RESULT } } : change;
    },
  ],
  "a claim does not look at the lease": [
    /two attempts were permitted at once/,
    (record, event, at) =>
      transition(record !== null && event.type === "claim" ? { ...record, lease: null } : record, event, at),
  ],
  "leases are judged by the wall clock": [
    /two attempts|without a live hold|under a live hold/,
    (record, event, at) => transition(record, event, { ...at, steady: at.now }),
  ],
  "a heartbeat does not compare fence and holder": [
    /heartbeat was permitted without a live hold/,
    (record, event, at) =>
      transition(record, event.type === "heartbeat" ? { ...event, hold: presentHold(record) } : event, at),
  ],
  "a late rejection counts for the present attempt": [
    /not-sent of one attempt ended another/,
    (record, event, at) =>
      transition(record, event.type === "not-sent" ? { ...event, hold: presentHold(record) } : event, at),
  ],
  "a lapsed sent record may be claimed": [
    /called unsent/,
    (record, event, at) => {
      const lapsed = record?.state === "sent" && event.type === "claim" && !leaseAlive(record, at);
      return transition(lapsed ? { ...record, state: "claimed" } : record, event, at);
    },
  ],
  "a doubt may be claimed": [
    /called unsent|a doubt was left by claim/,
    (record, event, at) =>
      transition(
        record?.state === "unknown" && event.type === "claim" ? { ...record, state: "pending" } : record,
        event,
        at,
      ),
  ],
  "a second success replaces the first": [
    /a confirmed record changed/,
    (record, event, at) =>
      transition(
        record?.state === "confirmed" && event.type === "confirm" ? { ...record, state: "sent" } : record,
        event,
        at,
      ),
  ],
  "a change of the retention clears the result": [
    /retain changed more than the retention/,
    (record, event, at) => {
      const change = transition(record, event, at);
      return change.ok && event.type === "retain" ? { ok: true, record: { ...change.record, result: null } } : change;
    },
  ],
  "a call takes its own keep": [
    /a retention was shortened/,
    (record, event, at) => {
      const change = transition(record, event, at);
      if (!change.ok || event.type !== "claim" || event.intent === undefined) return change;
      return { ok: true, record: { ...change.record, keepMs: keepFrom(event.intent, at.now) } };
    },
  ],
  "a deadline for what is known already is dropped": [
    /forgotten before its deadline/,
    (record, event, at) =>
      event.type === "enqueue" && record !== null && !expired(record, at.now) && record.queued
        ? { ok: false, refusal: "exists" }
        : transition(record, event, at),
  ],
  "a rejected record may be claimed": [
    /after a final state/,
    (record, event, at) =>
      transition(record !== null && event.type === "claim" ? { ...record, final: false } : record, event, at),
  ],
  "another input is claimed in place of queued work": [
    /replaced what a worker is going to run/,
    (record, event, at) =>
      transition(record !== null && event.type === "claim" ? { ...record, queued: false } : record, event, at),
  ],
  "every input is taken for another": [
    /after a final state/,
    (record, event, at) => transition(record, event.type === "claim" ? { ...event, otherInput: true } : event, at),
  ],
  "what a process that has ended may have sent is called unsent": [
    /lapse made it sent → pending|sent → pending by lapse/,
    (record, event, at) =>
      transition(
        record?.state === "sent" && event.type === "lapse" && event.gone ? { ...record, state: "claimed" } : record,
        event,
        at,
      ),
  ],
  "a takeover keeps the fence": [
    /the fence grows by one/,
    (record, event, at) => {
      const change = transition(record, event, at);
      if (!change.ok || record === null || event.type !== "claim") return change;
      return { ok: true, record: { ...change.record, fence: record.fence } };
    },
  ],
  "a resend that failed settles the attempt before it": [
    /a resend's failure hid a doubt/,
    (record, event, at) =>
      transition(record !== null && event.type === "not-sent" ? { ...record, doubted: false } : record, event, at),
  ],
};

/** Histories that broke a promise once. */
const FOUND: [Step[]][] = [
  // A late success of a forgotten attempt, and another input for what was claimed meanwhile and never begun.
  [
    [
      { do: "act", actor: 0, kind: "claim", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "confirm", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "forget", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "claim", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "confirm", late: false, holdBack: 1, choice: 0 },
      { do: "pass", steadyMs: 100, wallMs: 0 },
      { do: "act", actor: 0, kind: "enqueue", late: false, holdBack: 0, choice: 4 },
    ],
  ],
  // The same, queued by its own input, and a call with another one.
  [
    [
      { do: "act", actor: 0, kind: "claim", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "lapse", late: false, holdBack: 0, choice: 5 },
      { do: "act", actor: 0, kind: "forget", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "claim", late: false, holdBack: 0, choice: 0 },
      { do: "act", actor: 0, kind: "confirm", late: false, holdBack: 1, choice: 0 },
      { do: "act", actor: 0, kind: "enqueue", late: false, holdBack: 0, choice: 0 },
      { do: "reboot" },
      { do: "act", actor: 0, kind: "claim", late: false, holdBack: 0, choice: 4 },
    ],
  ],
];

describe("the state machine under random histories", () => {
  it(`keeps its promises in ${RUNS} histories`, () => {
    fc.assert(lives(transition), { numRuns: RUNS, examples: FOUND });
  });

  it("the histories reach every state and accept every event, so that the property means something", () => {
    const reached = new Set<string>();
    const collect = (world: World) => {
      for (const way of world.accepted) reached.add(way);
    };
    fc.assert(lives(transition, collect), { numRuns: 3_000, seed: 1 });
    expect([...reached].sort()).toEqual([
      "bring-forward → pending",
      "claim → claimed",
      "claim → sent",
      "confirm → claimed",
      "confirm → confirmed",
      "confirm → sent",
      "confirm → unknown",
      "delivered → confirmed",
      "delivered → failed",
      "doubt → unknown",
      "enqueue → claimed",
      "enqueue → confirmed",
      "enqueue → failed",
      "enqueue → pending",
      "enqueue → sent",
      "enqueue → unknown",
      "forget → confirmed",
      "give-back → pending",
      "heartbeat → claimed",
      "heartbeat → sent",
      "lapse → pending",
      "lapse → unknown",
      "mark → sent",
      "not-sent → failed",
      "not-sent → pending",
      "not-sent → unknown",
      "probed → confirmed",
      "probed → failed",
      "probed → pending",
      "probed → unknown",
      "ran-unguarded → confirmed",
      "ran-unguarded → failed",
      "ran-unguarded → sent",
      "ran-unguarded → unknown",
      "resend → sent",
      "resolve → confirmed",
      "resolve → failed",
      "resolve → pending",
      "retain → confirmed",
      "retain → failed",
      "retain → pending",
      "retain → unknown",
      "retry → pending",
    ]);
  });

  for (const [name, [broken, machine]] of Object.entries(MUTANTS)) {
    it(`fails where ${name}`, () => {
      const run = fc.check(lives(machine), { numRuns: RUNS, seed: 1 });
      expect(run.failed).toBe(true);
      expect(String(run.errorInstance)).toMatch(broken);
    });
  }
});
