/**
 * A drip sequence: steps for one subject, each of them once, forward only, with time between them. All steps of a subject
 * are put into the outbox together, in one line, in the caller's transaction if there is one; the worker takes each when
 * the step before it is done and long enough ago.
 */
import { type Duration, durationMs, formatDuration } from "../core/duration.ts";
import { configError, noSuchOption, notSent, rejected, yieldingPlace } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { deriveKey } from "../core/key.ts";
import { type NoteName, readNote, writeNote } from "../core/ledger-note.ts";
import { isSettled } from "../core/order.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { type PolicyOptions, resolvePolicy } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Action } from "../engine/action.ts";
import type { CallDefaults } from "../engine/call.ts";
import type { AttemptContext } from "../engine/context.ts";
import type { ActionOptions, Probe } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { checkSignature, retryFailed, type Signature } from "../engine/operate.ts";

export type SequenceStep = string | { readonly step: string; readonly after?: Duration };

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
  /** Puts the subject's steps into the outbox. A repeat changes nothing; steps a release has added are added. */
  start(
    subject: string,
    data: I,
    options?: { readonly tx?: unknown; readonly tenant?: string },
  ): Promise<{ readonly created: boolean }>;
  /** No further step of this subject is taken until it is restarted. */
  stop(subject: string, signature: Signature, options?: { readonly tenant?: string }): Promise<void>;
  /** Goes on with the steps that were not taken; the ones that were are not taken again. */
  restart(subject: string, signature: Signature, options?: { readonly tenant?: string }): Promise<void>;
  status(subject: string, options?: { readonly tenant?: string }): Promise<SubjectStatus<R>>;
}

/** What a sequence needs of nevertwice(). */
export interface SequenceServices {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
  action<I, R, D>(name: string, options: ActionOptions<I, R, D>): Action<I, R>;
}

interface Planned {
  readonly step: string;
  readonly afterMs: number;
}

const OPTIONS = new Set("after onFailed run keep lease timeout doubt retry whenStoreDown".split(" "));
const STEP = new Set(["step", "after"]);
const MOST_STEPS = 100;
const CONTROL = "nevertwice.sequence";
// A subject that was stopped stays stopped for as long as its steps lie about.
const CONTROL_KEEP_MS = 365 * 86_400_000;
const MAX_SWAPS = 64;
// A step that is put off because the one before it came late does not use up its tries.
const EXTRA_TRIES = 20;

export function createSequence<I, R>(
  name: string,
  steps: readonly SequenceStep[],
  options: SequenceOptions<I, R>,
  services: SequenceServices,
): Sequence<I, R> {
  const where = `sequence ${JSON.stringify(name)}`;
  const planned = planOf(steps, options, where);
  return new Drip<I, R>(name, planned, options, services);
}

function planOf<I, R>(steps: readonly SequenceStep[], options: SequenceOptions<I, R>, where: string): Planned[] {
  if (!Array.isArray(steps) || steps.length === 0 || steps.length > MOST_STEPS)
    throw configError(
      `${where}: it takes a list of 1 to ${MOST_STEPS} steps, such as ["welcome", { step: "social_proof", after: "2d" }].`,
    );
  if (typeof options !== "object" || options === null || typeof options.run !== "function")
    throw configError(`${where}: run is missing. Give it what a step does: { run: async ({ subject, step }) => … }.`);
  for (const option of Object.keys(options)) {
    if (!OPTIONS.has(option)) throw noSuchOption(where, option, OPTIONS);
  }
  const { onFailed = "stop", after = 0, keep } = options;
  if (onFailed !== "stop" && onFailed !== "continue")
    throw configError(`${where}: onFailed is ${JSON.stringify(onFailed)}; it takes "stop" or "continue".`);
  const names = new Set<string>();
  const planned = steps.map((given: SequenceStep, i) => {
    const { step, after: own = undefined } = typeof given === "string" ? { step: given } : (given ?? {});
    if (typeof step !== "string" || step.trim() === "") throw configError(`${where}: step ${i + 1} has no name.`);
    const unstorable = unstorableIn(step);
    if (unstorable !== null)
      throw configError(`${where}: the name of step ${i + 1} cannot be kept: ${unstorable}. Leave it out.`);
    const [wrong] = typeof given === "string" ? [] : Object.keys(given).filter((name) => !STEP.has(name));
    if (wrong !== undefined)
      throw configError(
        `${where}: the step ${JSON.stringify(step)} has no option ${JSON.stringify(wrong)}; it takes step and after.`,
      );
    if (names.has(step))
      throw configError(
        `${where}: two steps are called ${JSON.stringify(step)}; each flips once, so each needs a name of its own.`,
      );
    names.add(step);
    return { step, afterMs: durationMs(own ?? (i === 0 ? 0 : after), `${where}: after of ${JSON.stringify(step)}`) };
  });
  checkKeep(planned, resolvePolicy(keep === undefined ? {} : { keep }, where).keepMs, where);
  return planned;
}

/** A step looks at the one before it: one that is forgotten by then would hold up the rest for good. */
function checkKeep(planned: readonly Planned[], keepMs: number | null, where: string): void {
  const takesMs = planned.reduce((sum, { afterMs }) => sum + afterMs, 0);
  if (keepMs === null || takesMs < keepMs) return;
  throw configError(
    `${where}: its steps take ${formatDuration(takesMs)}, and keep is ${formatDuration(keepMs)}: a step would be forgotten before the next one looks for it. Give keep more time, such as { keep: ${JSON.stringify(formatDuration(2 * takesMs))} }, or "forever".`,
  );
}

const STOPPED = "SequenceStopped";

class Stopped extends Error {
  override readonly name = STOPPED;
}

/** Not taken because the sequence was stopped: unlike a step that failed by itself, it holds the ones after it back. */
function wasStopped({ state, error }: LedgerRecord): boolean {
  return state === "failed" && error?.name === STOPPED;
}

class Drip<I, R> implements Sequence<I, R> {
  readonly sequenceName: string;
  readonly #planned: readonly Planned[];
  readonly #services: SequenceServices;
  readonly #action: Action<StepOf<I>, R>;
  readonly #onFailed: "stop" | "continue";

  constructor(name: string, planned: readonly Planned[], options: SequenceOptions<I, R>, services: SequenceServices) {
    const { after: _after, onFailed = "stop", run, ...policy } = options;
    this.sequenceName = name;
    this.#planned = planned;
    this.#services = services;
    this.#onFailed = onFailed;
    const attempts = (policy.retry?.attempts ?? 5) + EXTRA_TRIES;
    this.#action = services.action<StepOf<I>, R, undefined>(sequenceAction(name), {
      ...policy,
      retry: { ...policy.retry, attempts },
      key: ["subject", "step"],
      // The same subject may be started again with newer data: what counts is which step of whom it is.
      free: ["data"] as never,
      prepare: (input, context) => this.#mayBegin(input, context),
      run: (input, context) => run(input, context),
    });
  }

  async start(
    subject: string,
    data: I,
    options: { tx?: unknown; tenant?: string } = {},
  ): Promise<{ created: boolean }> {
    this.#check(subject);
    const now = this.#services.engine.services.ledger.instant().now;
    let dueAt = now;
    let created = false;
    for (const { step, afterMs } of this.#planned) {
      dueAt += afterMs;
      const enqueued = await this.#action.enqueue({ subject, step, data }, { ...options, dueAt, orderKey: subject });
      created ||= enqueued.created;
    }
    return { created };
  }

  async stop(subject: string, signature: Signature, options: { tenant?: string } = {}): Promise<void> {
    this.#check(subject);
    checkSignature(signature ?? {}, `${this.sequenceName}.stop`);
    this.#services.engine.requireOpen();
    await this.#tell(subject, this.#tenantOf(options), JSON.stringify({ ...signature, stopped: true }));
  }

  async restart(subject: string, signature: Signature, options: { tenant?: string } = {}): Promise<void> {
    this.#check(subject);
    checkSignature(signature ?? {}, `${this.sequenceName}.restart`);
    this.#services.engine.requireOpen();
    const tenant = this.#tenantOf(options);
    // While the stop stands no step can pass one that is still to be queued again: it is lifted last.
    await this.#queueAgain(subject, tenant, signature, (record) => record.state === "failed");
    await this.#tell(subject, tenant, JSON.stringify({ ...signature, stopped: false }));
    // Those that a worker took in between have failed as stopped once more.
    await this.#queueAgain(subject, tenant, signature, wasStopped);
  }

  async #queueAgain(
    subject: string,
    tenant: string,
    signature: Signature,
    which: (record: LedgerRecord) => boolean,
  ): Promise<void> {
    for (const { record } of await this.#records(subject, tenant)) {
      if (record === null || !which(record)) continue;
      await retryFailed(this.#services.engine, { key: record.key, tenant }, signature);
    }
  }

  async status(subject: string, options: { tenant?: string } = {}): Promise<SubjectStatus<R>> {
    this.#check(subject);
    this.#services.engine.requireOpen();
    const tenant = this.#tenantOf(options);
    const found = await this.#records(subject, tenant);
    const steps = found.map(({ step, key, record }) => ({
      step,
      outcome: (record === null ? { status: "absent", key } : this.#services.engine.describe(record)) as
        | Outcome<R>
        | Absent,
    }));
    return { subject, steps, state: stateOf(steps, (await this.#control(subject, tenant)) !== null) };
  }

  /** Before anything leaves the house: not stopped, the step before it done, and long enough ago. */
  async #mayBegin({ subject, step }: StepOf<I>, context: AttemptContext): Promise<undefined> {
    const place = this.#planned.findIndex((one) => one.step === step);
    const { ledger } = this.#services.engine.services;
    const own = await ledger.read(context.key);
    const tenant = own?.record.tenant ?? this.#services.defaults.tenant;
    if (place === -1)
      throw rejected(new Error(`the sequence ${this.sequenceName} has no step ${JSON.stringify(step)} any more`));
    const stopped = await this.#control(subject, tenant);
    if (stopped !== null) throw rejected(new Stopped(`stopped by ${stopped.by}: ${stopped.reason}`));
    if (place === 0) return undefined;
    const before = this.#planned[place - 1] as Planned;
    const stored = await ledger.read(await this.#keyOf(subject, before.step, tenant));
    // Also with onFailed "continue": it did not fail by itself, and a restart brings it back.
    if (stored !== null && wasStopped(stored.record))
      throw rejected(
        new Stopped(
          `the step before it, ${JSON.stringify(before.step)}, was stopped. Call restart() to go on with both`,
        ),
      );
    const done =
      stored?.record.state === "confirmed" || (this.#onFailed === "continue" && stored?.record.state === "failed");
    if (!done && stored?.record.state === "failed")
      throw rejected(
        new Error(`the step before it, ${JSON.stringify(before.step)}, failed: ${stored.record.error?.message ?? ""}`),
      );
    const { afterMs } = this.#planned[place] as Planned;
    const dueAt = done ? (stored?.record.settledAt ?? 0) + afterMs : ledger.instant().now + afterMs;
    if (done && dueAt <= ledger.instant().now) return undefined;
    const early = notSent(new Error(`${afterMs} ms after ${JSON.stringify(before.step)} have not passed`), {
      retryAfter: new Date(dueAt),
    });
    // The step before it was brought back and stands behind this one in the order: this one has to let it pass.
    throw stored === null || isSettled(stored.record) ? early : yieldingPlace(early);
  }

  // ---- the ledger ----

  async #records(
    subject: string,
    tenant: string,
  ): Promise<{ step: string; key: string; record: LedgerRecord | null }[]> {
    const keys = await Promise.all(this.#planned.map(({ step }) => this.#keyOf(subject, step, tenant)));
    const { ledger } = this.#services.engine.services;
    const stored = await Promise.all(keys.map((key) => ledger.read(key)));
    return this.#planned.map(({ step }, i) => ({ step, key: keys[i] as string, record: stored[i]?.record ?? null }));
  }

  #keyOf(subject: string, step: string, tenant: string): Promise<string> {
    return this.#action.keyOf({ subject, step, data: null as I }, tenant === "" ? {} : { tenant });
  }

  #noteOf(subject: string, tenant: string): NoteName {
    const { secret } = this.#services.defaults;
    const parts = [this.sequenceName, subject];
    const key = deriveKey({ tenant, action: CONTROL, version: 1, scope: null, parts, secret });
    return { key, tenant, action: CONTROL, keepMs: CONTROL_KEEP_MS };
  }

  /** Who stopped it, and why; null: nobody has, or it was restarted. */
  async #control(subject: string, tenant: string): Promise<Signature | null> {
    const { ledger } = this.#services.engine.services;
    const note = await ledger.read(this.#noteOf(subject, tenant).key);
    const text = readNote(note?.record ?? null, ledger.instant());
    const control = text === null ? null : (JSON.parse(text) as Signature & { stopped: boolean });
    return control?.stopped === true ? control : null;
  }

  #tell(subject: string, tenant: string, text: string): Promise<void> {
    return this.#services.engine.during(() => this.#write(subject, tenant, text));
  }

  async #write(subject: string, tenant: string, text: string): Promise<void> {
    const { ledger } = this.#services.engine.services;
    const name = this.#noteOf(subject, tenant);
    let note = await ledger.read(name.key);
    for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
      const record = writeNote(note?.record ?? null, name, text, ledger.instant());
      const [result] = await ledger.store.write([{ record, expected: note?.version ?? null }]);
      if (result?.ok) return;
      note = result?.current ?? null;
    }
    throw configError(`${this.sequenceName}: the subject's record kept changing under this call. Call again.`);
  }

  #tenantOf(options: { tenant?: string }): string {
    requireGiven(`sequence ${JSON.stringify(this.sequenceName)}`, options, ["tenant"]);
    return options.tenant ?? this.#services.defaults.tenant;
  }

  #check(subject: unknown): void {
    if (typeof subject === "string" && subject.trim() !== "" && unstorableIn(subject) === null) return;
    throw configError(
      `sequence ${JSON.stringify(this.sequenceName)}: the subject is ${JSON.stringify(subject)}; give the id of whom it is for, as a text that is not blank and has no U+0000 in it.`,
    );
  }
}

export function sequenceAction(name: string): string {
  return `sequence:${name}`;
}

function stateOf(steps: readonly { outcome: { status: string } }[], stopped: boolean): SubjectStatus<unknown>["state"] {
  const statuses = steps.map(({ outcome }) => outcome.status);
  if (statuses.every((status) => status === "absent")) return "absent";
  if (statuses.every((status) => status === "done")) return "done";
  if (stopped) return "stopped";
  if (statuses.includes("unknown")) return "held";
  return statuses.includes("failed") ? "failed" : "running";
}
