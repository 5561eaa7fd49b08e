/**
 * A drip sequence: steps for one subject, each of them once, forward only, with time between them. All steps of a subject
 * are put into the outbox together, in one line, in the caller's transaction if there is one; the worker takes each when
 * the step before it is done and long enough ago.
 */
import { type Duration, durationMs, formatDuration } from "../core/duration.ts";
import { entryAction } from "../core/entry-name.ts";
import { configError, NevertwiceError, putOff, rejected } from "../core/errors.ts";
import { keepFrom, keepOfWindows, leastKeepMs, windowsIn } from "../core/keep.ts";
import { isSettled } from "../core/order.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { DEFAULT_KEEP, type Policy, type PolicyOptions, resolvePolicy, withDefaultKeep } from "../core/policy.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Action } from "../engine/action.ts";
import type { CallDefaults } from "../engine/call.ts";
import type { AttemptContext } from "../engine/context.ts";
import type { ActionOptions, Probe } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { keptUntilDone } from "../engine/enqueue.ts";
import { requireGivenIn } from "../engine/make-call.ts";
import { checkSignature, retryFailed, type Signature } from "../engine/operate.ts";
import type { Swaps } from "../engine/order-place.ts";
import { PAST, type PastAccess } from "../engine/past.ts";
import { viewOf } from "../engine/transactional.ts";
import { swapsOf, swapsWithin } from "../engine/turn.ts";
import { type DoneStep, type DoneSteps, doneSteps, recordDone, stillToRecord } from "./done-steps.ts";
import { Followers } from "./followers.ts";
import {
  decide,
  isAhead,
  isBehind,
  isQueuedAgain,
  type ListedStep,
  type Progress,
  type Standing,
  stepsBehind,
  withList,
} from "./forward.ts";
import { mayBeQueuedAgain, NotTaken, standingOf } from "./not-taken.ts";
import { type Planned, planOf, type SequenceStep, timeTaken } from "./sequence-list.ts";
import { type NoteOf, noteKey, type SubjectNote, subjectNote, writeSubjectNote } from "./subject-note.ts";

export interface StepOf<I> {
  readonly subject: string;
  readonly step: string;
  /** What start() was given for this subject. */
  readonly data: I;
}

export interface SequenceOptions<I, R> extends Omit<PolicyOptions<Probe<StepOf<I>, R>>, "wait"> {
  /** Between one step and the next, where a step does not say otherwise: none unless given. */
  readonly after?: Duration;
  /** A step that failed for good: "stop" (unless given) ends the sequence there, "continue" goes on with the next. */
  readonly onFailed?: "stop" | "continue";
  readonly run: (step: StepOf<I>, context: AttemptContext) => R | Promise<R>;
}

export interface SubjectStatus<R> {
  readonly subject: string;
  /** absent: never started · running: a step is due or will be · stopped: by name · held: a step is in doubt */
  readonly state: "absent" | "running" | "stopped" | "held" | "failed" | "done";
  readonly steps: readonly { readonly step: string; readonly outcome: Outcome<R> | Absent }[];
}

export interface Sequence<I, R> {
  readonly sequenceName: string;
  /**
   * Puts the subject's steps into the outbox. A repeat changes nothing; steps a release has added are added. `done`: the first
   * steps, taken before nevertwice knew the subject; they are recorded as done and not run.
   */
  start(
    subject: string,
    data: I,
    options?: { readonly tx?: unknown; readonly tenant?: string; readonly done?: DoneSteps },
  ): Promise<{ readonly created: boolean }>;
  /** No further step of this subject is taken until it is restarted. */
  stop(subject: string, signature: Signature, options?: { readonly tenant?: string }): Promise<void>;
  /**
   * Goes on with the steps that were not taken; the ones that were are not taken again. Returns the status after that.
   * An error for a subject that was never started, and for one that a step in doubt holds.
   */
  restart(subject: string, signature: Signature, options?: { readonly tenant?: string }): Promise<SubjectStatus<R>>;
  status(subject: string, options?: { readonly tenant?: string }): Promise<SubjectStatus<R>>;
}

/** What a sequence needs of nevertwice(). */
export interface SequenceServices {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
  action<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
}

// A step that waits for another one is looked at again no sooner than this.
const LOOK_AGAIN_MS = 1_000;

export function createSequence<I, R>(
  name: string,
  steps: readonly SequenceStep[],
  options: SequenceOptions<I, R>,
  services: SequenceServices,
): Sequence<I, R> {
  const where = `sequence ${JSON.stringify(name)}`;
  const planned = planOf(steps, options, where);
  const twiceMs = leastKeepMs(timeTaken(planned));
  const keepMs = Math.max(twiceMs, durationMs(DEFAULT_KEEP, where));
  return new Drip<I, R>(name, planned, withDefaultKeep(options, keepMs), services);
}

interface Known extends ListedStep {
  readonly key: string;
  readonly record: LedgerRecord | null;
}

/** A subject as the ledger has it, by the present list. */
interface Subject extends Progress {
  readonly steps: readonly Known[];
  /** Queued for the subject, and not in the present list. */
  readonly removed: readonly Known[];
  readonly note: SubjectNote;
}

class Drip<I, R> implements Sequence<I, R> {
  readonly sequenceName: string;
  readonly #planned: readonly Planned[];
  readonly #list: readonly string[];
  readonly #services: SequenceServices;
  readonly #action: Action<StepOf<I>, R>;
  readonly #onFailed: "stop" | "continue";
  readonly #policy: Pick<Policy, "keepMs" | "keepByHand">;

  constructor(name: string, planned: readonly Planned[], options: SequenceOptions<I, R>, services: SequenceServices) {
    const { after: _after, onFailed = "stop", run, ...policy } = options;
    this.sequenceName = name;
    this.#planned = planned;
    this.#list = planned.map(({ step }) => step);
    this.#services = services;
    this.#onFailed = onFailed;
    this.#policy = resolvePolicy(options, `sequence ${JSON.stringify(name)}`);
    this.#action = services.action<StepOf<I>, R, undefined>(sequenceAction(name), {
      ...policy,
      key: ["subject", "step"],
      // The same subject may be started again with newer data: what counts is which step of whom it is.
      free: ["data"] as never,
      prepare: (input, context) => this.#mayBegin(input, context),
      // Failed, and not for good.
      classify: (error) => (mayBeQueuedAgain(error) ? "refused" : undefined),
      run: (input, context) => run(input, context),
    });
  }

  async start(
    subject: string,
    data: I,
    { done: given, ...options }: { tx?: unknown; tenant?: string; done?: DoneSteps } = {},
  ): Promise<{ created: boolean }> {
    this.#check(subject);
    const done = doneSteps(given, this.#list, `${this.sequenceName}.start`);
    const tenant = this.#tenantOf(options);
    const { engine } = this.#services;
    engine.requireOpen();
    const { ledger } = engine.services;
    const { tx } = options;
    const swaps = tx === undefined ? swapsOf(ledger) : swapsWithin(ledger, viewOf(engine, this.sequenceName, tx));
    const found = await this.#lookWith(done, subject, data, tenant, swaps);
    const { note, behind } = found;
    const followers = new Followers(swaps);
    const { now } = ledger.instant();
    // At the first start, the pause after what was taken before counts from when that was.
    let dueAt = note.enrolled === null ? Math.min(now, found.lastTakenAt ?? now) : now;
    let created = false;
    let waits = false;
    let before: Standing | null = null;
    for (const known of this.#ahead(found)) {
      const { step, standing } = known;
      const place = this.#list.indexOf(step);
      if (standing === "waiting") await followers.keepBehind(known.key);
      if (place < behind) continue;
      // One that failed was due already: how long after the step before it is checked when it begins.
      if (standing !== "failed" && standing !== "unlisted") dueAt += (this.#planned[place] as Planned).afterMs;
      if (!isQueuedAgain(standing, before, this.#onFailed)) continue;
      const terms = keptUntilDone({ ...options, dueAt, orderKey: subject });
      const enqueued = await this.#action.enqueue({ subject, step, data }, terms);
      created ||= enqueued.created;
      waits ||= enqueued.state === "pending";
      if (known.record?.state === "failed" && enqueued.state === "pending") followers.broughtBack();
      if (standing !== "passed") before = enqueued.state === "failed" ? standing : "waiting";
    }
    // Last: what the note names was surely queued. A start that breaks off before is made good by the next one.
    const queued = found.steps
      .filter(({ standing }, i) => i >= behind || standing !== "absent")
      .map(({ step }) => step);
    const known = note.enrolled !== null && queued.every((step) => note.enrolled?.includes(step));
    if (!known || (waits && !note.lasts)) await engine.during(() => this.#enrol(subject, tenant, queued, swaps));
    // Every step was done before: none begins that would give the note its end.
    const isOver = !waits && found.steps.length > 0 && behind === found.steps.length;
    if (isOver && (!known || note.lasts)) await engine.during(() => this.#giveEnd(subject, tenant, swaps));
    return { created };
  }

  /** The subject as it is once the steps of `done` are recorded. */
  async #lookWith(done: readonly DoneStep[], subject: string, data: I, tenant: string, swaps: Swaps): Promise<Subject> {
    const found = await this.#look(subject, tenant, swaps);
    const missing = stillToRecord(done, found.steps, subject, `${this.sequenceName}.start`);
    if (missing.length === 0) return found;
    const access = (this.#action as unknown as { readonly [PAST]: PastAccess })[PAST];
    const intentOf = (step: string) => access.intentOf({ subject, step, data }, tenant === "" ? {} : { tenant });
    await this.#services.engine.during(() => recordDone(swaps, missing, intentOf, this.#policy.keepMs));
    return this.#look(subject, tenant, swaps);
  }

  async stop(subject: string, signature: Signature, options: { tenant?: string } = {}): Promise<void> {
    this.#check(subject);
    checkSignature(signature ?? {}, `${this.sequenceName}.stop`);
    this.#services.engine.requireOpen();
    await this.#sign(subject, this.#tenantOf(options), signature, true);
  }

  async restart(subject: string, signature: Signature, options: { tenant?: string } = {}): Promise<SubjectStatus<R>> {
    this.#check(subject);
    checkSignature(signature ?? {}, `${this.sequenceName}.restart`);
    this.#services.engine.requireOpen();
    const tenant = this.#tenantOf(options);
    const before = await this.#look(subject, tenant);
    this.#requireKnown(subject, before);
    this.#requireRemembered(subject, before);
    // While the stop stands no step can pass one that is still to be queued again: it is lifted last.
    const queued = await this.#queueAgain(subject, tenant, signature, ["failed", "blocked", "stopped", "unlisted"]);
    if (!queued && before.note.stopped === null) this.#requireNoDoubt(subject, before);
    await this.#sign(subject, tenant, signature, false);
    // Those that a worker took in between have failed as stopped once more.
    await this.#queueAgain(subject, tenant, signature, ["stopped"]);
    const after = await this.#look(subject, tenant);
    if (!after.steps.some(({ standing }, i) => i >= after.behind && isAhead(standing)))
      await this.#giveEnd(subject, tenant);
    return this.#statusOf(subject, after);
  }

  /** Of the steps that are still ahead: what is behind the subject is not brought back. True: at least one was. */
  async #queueAgain(
    subject: string,
    tenant: string,
    signature: Signature,
    which: readonly Standing[],
  ): Promise<boolean> {
    const found = await this.#look(subject, tenant);
    const followers = new Followers(swapsOf(this.#ledger));
    let queued = false;
    for (const { step, key, standing } of this.#ahead(found)) {
      if (standing === "waiting") await followers.keepBehind(key);
      if (this.#list.indexOf(step) < found.behind || !which.includes(standing)) continue;
      await retryFailed(this.#services.engine, { key, tenant }, signature);
      followers.broughtBack();
      queued = true;
    }
    return queued;
  }

  /** The listed steps that are ahead of the subject, and the removed ones that wait, in the order they were queued in. */
  #ahead({ steps, removed, behind, note }: Subject): Known[] {
    const known = new Map([...steps.slice(behind), ...removed].map((one) => [one.step, one]));
    return withList(note.enrolled ?? [], this.#list).flatMap((step) => known.get(step) ?? []);
  }

  #requireKnown(subject: string, found: Subject): void {
    if (found.note.stopped !== null || stateOf(found) !== "absent") return;
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${this.sequenceName}.restart: ${JSON.stringify(subject)} was never started, or is past keep. Nothing was queued. Call start(${JSON.stringify(subject)}, data) to begin.`,
    );
  }

  #requireNoDoubt(subject: string, { steps, removed }: Subject): void {
    const held = [...removed, ...steps].find(isInDoubt);
    if (held === undefined) return;
    throw new NevertwiceError(
      "OUTCOME_UNKNOWN",
      `${this.sequenceName}.restart: nothing to restart for ${JSON.stringify(subject)}: its step ${JSON.stringify(held.step)} is in doubt, and the steps after it wait until that is settled. Find out whether it happened, then settle it: nevertwice resolve ${held.key} --done --reason "…" (--not-done if it did not happen). The sequence then goes on by itself.`,
      { key: held.key },
    );
  }

  #requireRemembered(subject: string, { note, steps }: Subject): void {
    if (note.stopped === null || steps.at(-1)?.standing !== "forgotten") return;
    const gone = steps.filter(({ standing }) => standing === "forgotten").map(({ step }) => JSON.stringify(step));
    throw configError(
      `${this.sequenceName}.restart: nothing is left to go on with. ${JSON.stringify(subject)} was stopped by ${note.stopped.by}, and the records of ${gone.join(", ")} are past keep. Start a sequence of another name for it.`,
    );
  }

  async status(subject: string, options: { tenant?: string } = {}): Promise<SubjectStatus<R>> {
    this.#check(subject);
    this.#services.engine.requireOpen();
    return this.#statusOf(subject, await this.#look(subject, this.#tenantOf(options)));
  }

  #statusOf(subject: string, found: Subject): SubjectStatus<R> {
    // A doubt holds up the steps after it, also where the list no longer has its step.
    const steps = [...found.removed.filter(isInDoubt), ...found.steps].map(({ step, key, record }) => ({
      step,
      outcome: (record === null ? { status: "absent", key } : this.#services.engine.describe(record)) as
        | Outcome<R>
        | Absent,
    }));
    return { subject, steps, state: stateOf(found) };
  }

  /** Before anything leaves the house: not stopped, not passed, the step before it done, and long enough ago. */
  async #mayBegin({ subject, step }: StepOf<I>, context: AttemptContext): Promise<undefined> {
    const { ledger } = this.#services.engine.services;
    const own = await ledger.read(context.key);
    const tenant = own?.record.tenant ?? this.#services.defaults.tenant;
    const found = await this.#look(subject, tenant);
    const refusal = this.#refusalOf(step, found);
    if (refusal === null) await this.#passOver(subject, step, found);
    // What is refused without being over is brought back some day, so the subject is known until then.
    const isOpen = refusal === null ? this.#isOpen(found, step, true) : !refusal.isOver;
    if (!isOpen) await this.#giveEnd(subject, tenant);
    if (refusal !== null) throw refusal.error;
    return undefined;
  }

  /** Whether a step other than this one is still to be taken. Those before one that begins are passed by it. */
  #isOpen({ steps, behind }: Subject, step: string, begins = false): boolean {
    const from = begins ? Math.max(behind, this.#list.indexOf(step)) : behind;
    return steps.some((one, i) => one.step !== step && i >= from && isAhead(one.standing));
  }

  /** The steps before one that begins are over, taken or not: those that were kept until they are done get an end. */
  async #passOver(subject: string, step: string, { steps, removed }: Subject): Promise<void> {
    const keepMs = this.#stepKeepMs(subject);
    const before = [...steps.slice(0, this.#list.indexOf(step)), ...removed];
    const kept = before.filter(({ record }) => record?.state === "failed" && record.expiresAt === null);
    if (keepMs === null) return;
    for (const { key } of kept) await this.#services.engine.retain(key, keepMs);
  }

  /** Throws where it is too early. */
  #refusalOf(step: string, found: Subject): { readonly error: Error; readonly isOver: boolean } | null {
    const { steps, behind, lastTakenAt, note } = found;
    const place = this.#list.indexOf(step);
    if (place === -1) {
      const isOver = note.stopped === null && !this.#isOpen(found, step);
      const why = `the sequence ${this.sequenceName} has no step ${JSON.stringify(step)} any more. Where the list has it again, start() queues it again`;
      return { error: new NotTaken("unlisted", why, isOver), isOver };
    }
    if (note.stopped !== null) {
      const why = `stopped by ${note.stopped.by}: ${note.stopped.reason}`;
      return { error: rejected(new NotTaken("stopped", why, false)), isOver: false };
    }
    const { now } = this.#services.engine.services.ledger.instant();
    const { afterMs } = this.#planned[place] as Planned;
    const decision = decide({ steps, behind, lastTakenAt }, place, { afterMs, onFailed: this.#onFailed, now });
    if (decision.do === "begin") return null;
    if (decision.do === "refuse") {
      const isPassed = decision.as === "passed";
      const notTaken = new NotTaken(decision.as, decision.why, isPassed);
      const error = decision.as === "blocked" ? notTaken : rejected(notTaken);
      return { error, isOver: isPassed && !this.#isOpen(found, step) };
    }
    const { before, until, yields } = decision;
    throw putOff(new Error(`${formatDuration(afterMs)} after ${JSON.stringify(before)} have not passed`), {
      until: Math.max(until, now + LOOK_AGAIN_MS),
      yieldsPlace: yields,
    });
  }

  // ---- the ledger ----

  async #look(subject: string, tenant: string, swaps: Swaps = swapsOf(this.#ledger)): Promise<Subject> {
    const at = swaps.now();
    const keys = await Promise.all(this.#list.map((step) => this.#keyOf(subject, step, tenant)));
    const [noted = null, ...stored] = await swaps.read([noteKey(this.#noteOf(subject, tenant)), ...keys]);
    const note = subjectNote(noted, at);
    const records = stored.map((one) => (one && !expired(one.record, at.now) ? one.record : null));
    const last = records.findLastIndex((record) => record !== null);
    const steps = records.map((record, i) => {
      const step = this.#list[i] as string;
      // Steps are queued in order, so one that is missing before one that is there was settled and is past its keep.
      const queued = note.enrolled === null ? i < last : note.enrolled.includes(step);
      return { ...listed(step, record, queued), key: keys[i] as string, record };
    });
    const removed = await this.#removed(subject, tenant, note, swaps);
    const all = [...steps, ...removed];
    const over = new Set(all.filter(({ standing }) => isBehind(standing)).map(({ step }) => step));
    return {
      steps,
      removed,
      note,
      behind: stepsBehind(this.#list, note.enrolled ?? [], (step) => over.has(step)),
      lastTakenAt: all.reduce<number | null>(
        (latest, { standing, settledAt }) =>
          isBehind(standing) && settledAt !== null ? Math.max(latest ?? 0, settledAt) : latest,
        null,
      ),
    };
  }

  async #removed(subject: string, tenant: string, note: SubjectNote, swaps: Swaps): Promise<Known[]> {
    const names = (note.enrolled ?? []).filter((step) => !this.#list.includes(step));
    if (names.length === 0) return [];
    const { now } = swaps.now();
    const keys = await Promise.all(names.map((step) => this.#keyOf(subject, step, tenant)));
    const stored = await swaps.read(keys);
    return names.map((step, i) => {
      const found = stored[i]?.record ?? null;
      const record = found === null || expired(found, now) ? null : found;
      return { ...listed(step, record, true), key: keys[i] as string, record };
    });
  }

  /**
   * Without an end: the note is kept while a step of the subject waits. A step that came too late for the subject is left out:
   * named, it would count as settled and forgotten, also at another place in a later list.
   */
  #enrol(subject: string, tenant: string, queued: readonly string[], swaps: Swaps): Promise<void> {
    return writeSubjectNote(swaps, this.#noteOf(subject, tenant), ({ enrolled, stopped }) => ({
      enrolled: withList(enrolled ?? [], queued),
      signature: stopped,
      stopped: stopped !== null,
      keepMs: null,
    }));
  }

  /** Nothing of the subject waits from here on: what is kept of it outlives the records of its steps. A stop has no end: it holds until somebody restarts the subject. */
  async #giveEnd(subject: string, tenant: string, swaps: Swaps = swapsOf(this.#ledger)): Promise<void> {
    const stepMs = this.#stepKeepMs(subject);
    if (stepMs === null) return;
    const keepMs = leastKeepMs(stepMs);
    await writeSubjectNote(swaps, this.#noteOf(subject, tenant), ({ enrolled, stopped }) =>
      stopped === null && enrolled !== null ? { enrolled, signature: null, stopped: false, keepMs } : null,
    );
  }

  /** How long the record of a step that was taken is kept; null: forever. A window in the subject's name raises a default. */
  #stepKeepMs(subject: string): number | null {
    const { keepMs, keepByHand } = this.#policy;
    return keepFrom(keepOfWindows(keepMs, keepByHand, windowsIn(subject)), this.#ledger.instant().now);
  }

  #sign(subject: string, tenant: string, signature: Signature, stopped: boolean): Promise<void> {
    return this.#services.engine.during(() =>
      writeSubjectNote(swapsOf(this.#ledger), this.#noteOf(subject, tenant), ({ enrolled }) => ({
        enrolled,
        signature,
        stopped,
        keepMs: null,
      })),
    );
  }

  get #ledger() {
    return this.#services.engine.services.ledger;
  }

  #keyOf(subject: string, step: string, tenant: string): Promise<string> {
    return this.#action.keyOf({ subject, step, data: null as I }, tenant === "" ? {} : { tenant });
  }

  #noteOf(subject: string, tenant: string): NoteOf {
    const { secret } = this.#services.defaults;
    return { sequence: this.sequenceName, subject, tenant, secret };
  }

  #tenantOf(options: { tenant?: string; tx?: unknown }): string {
    requireGivenIn(options, `sequence ${JSON.stringify(this.sequenceName)}`);
    return options.tenant ?? this.#services.defaults.tenant;
  }

  #check(subject: unknown): void {
    if (typeof subject === "string" && subject.trim() !== "" && unstorableIn(subject) === null) return;
    throw configError(
      `sequence ${JSON.stringify(this.sequenceName)}: the subject is ${JSON.stringify(subject)}; give the id of whom it is for, as a text that is not blank and has no U+0000 in it.`,
    );
  }
}

function listed(step: string, record: LedgerRecord | null, queued: boolean): ListedStep {
  if (record === null) return { step, standing: queued ? "forgotten" : "absent", settledAt: null, why: "" };
  const settledAt = isSettled(record) ? record.settledAt : null;
  return { step, standing: standingOf(record), settledAt, why: record.error?.message ?? "" };
}

export function sequenceAction(name: string): string {
  return entryAction("sequence", name);
}

function isInDoubt({ record }: Known): boolean {
  return record?.state === "unknown";
}

function stateOf({ steps, removed, behind, note }: Subject): SubjectStatus<unknown>["state"] {
  if (note.enrolled === null && steps.every(({ standing }) => standing === "absent")) return "absent";
  // What was not queued, or was passed, is not this subject's; without a note, what is missing is still to be queued.
  const own = steps.filter(({ standing }, i) => {
    if (standing === "absent") return note.enrolled === null && i >= behind;
    return standing !== "passed" && standing !== "forgotten";
  });
  const states = own.map(({ record }) => record?.state);
  const isHeld = states.includes("unknown") || removed.some(isInDoubt);
  const done = !isHeld && states.every((state) => state === "confirmed");
  if (done && (own.length > 0 || note.stopped === null)) return "done";
  if (note.stopped !== null) return "stopped";
  if (isHeld) return "held";
  return states.includes("failed") ? "failed" : "running";
}
