/**
 * Runs what is queued: leases due records in batches, as many as can begin at once, and settles them as any call would.
 *
 * Records are leased as `claimed` and marked as sent right before each begins, in batches. That is one write more than a
 * lease straight to `sent`, and the reason why a worker that is killed, or a lease whose reply was lost, leaves no doubt
 * about what was not begun: it comes back as not sent.
 *
 * The exception is bulk: the extra write takes a third off the rate of a worker that drains hundreds at once (0.61 to 0.67
 * of graphile-worker instead of 1.0: npm run bench -- outbox). A lease for more than BULK_ROWS of plain, unordered work goes
 * straight to `sent`, and all of it begins as soon as the reply is here. A worker that gets no reply gives it back later
 * (lost-leases.ts); one that is killed within that round trip leaves those records in doubt.
 */
import { AsyncResource } from "node:async_hooks";
import { type Duration, durationMs } from "../core/duration.ts";
import { NevertwiceError } from "../core/errors.ts";
import { redact } from "../core/redact.ts";
import type { Stored } from "../core/store.ts";
import type { CallDefaults } from "../engine/call.ts";
import { noLongerThan, type Timer } from "../engine/clock.ts";
import { outside } from "../engine/context.ts";
import type { Definition } from "../engine/definition.ts";
import { Doorbells } from "../engine/doorbells.ts";
import type { Engine } from "../engine/engine.ts";
import { isEnqueued } from "../engine/events.ts";
import { Lanes } from "../engine/lanes.ts";
import { giveBack } from "../engine/leased-record.ts";
import { setImmediate } from "../engine/real-timers.ts";
import { DoubtSettler } from "./doubt-settler.ts";
import { type LeaseGroup, learnFrom, leasedTo, leaseGroups } from "./lease-groups.ts";
import { type Ending, type LeasedServices, runLeasedThen } from "./leased.ts";
import { Lines } from "./lines.ts";
import { LostLeases } from "./lost-leases.ts";
import { Postponed } from "./postponed.ts";
import { Outage, Unanswered } from "./unanswered.ts";
import type { Worker, WorkerEvent, WorkerStatus } from "./worker-contract.ts";
import { chosenDefinitions, readWorkerOptions, type WorkerOptions, type WorkerSettings } from "./worker-options.ts";

export type { Worker, WorkerEvent, WorkerStatus } from "./worker-contract.ts";

export interface WorkerServices {
  readonly engine: Engine;
  readonly defaults: CallDefaults;
  readonly definitions: ReadonlyMap<string, Definition>;
  /** Called when it begins: the sweeper then runs as well. */
  readonly used: () => void;
  /** Those that may have something under way: close() stops them. */
  readonly active: Set<Worker>;
}

// Rows of a lease: a third of what a busy worker has under way. While one third is fetched and one is settled the store is
// busy, and the program is with the last. With halves they waited for each other. Two leases at once, not three: each
// steps over what the others are about to take.
const LEASE_ROWS = 170;
const LEASES_AT_ONCE = 2;
// A few free slots are not worth a round trip while others are about to come free.
const FEW = 8;
const GATHER_MS = 3;
const EAGER_MS = 1_000;
const EAGER_POLL_MS = 20;
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [250, 30_000];

function newScope(): AsyncResource {
  return new AsyncResource("nevertwice.worker", { requireManualDestroy: true });
}

function nobodyWaits(): void {}

export function createWorker(options: WorkerOptions, services: WorkerServices): Worker {
  return new OutboxWorker(readWorkerOptions(options, services.defaults.confinedTo), services);
}

class OutboxWorker implements Worker {
  readonly #settings: WorkerSettings;
  readonly #engine: Engine;
  readonly #given: WorkerServices;
  readonly #leased: LeasedServices;
  readonly #lines: Lines;
  readonly #doubts: DoubtSettler;
  readonly #bells: Doorbells;
  readonly #lost: LostLeases;
  readonly #listeners = new Set<(event: WorkerEvent) => void>();
  readonly #counts = { done: 0, retried: 0, failed: 0, expired: 0, inDoubt: 0, givenBack: 0 };
  #definitions = new Map<string, Definition>();
  #groups: readonly LeaseGroup[] = [];
  #state: WorkerStatus["state"] = "new";
  #pumping = false;
  #running = 0;
  #leasing = 0;
  #reserved = 0;
  #turn = 0;
  #soon = false;
  #gathering: Timer | null = null;
  #timer: Timer | null = null;
  #nextDueAt = Number.POSITIVE_INFINITY;
  #eagerUntil = 0;
  #pauseMs = 0;
  #quiet: (() => void)[] = [];
  #stopping: Promise<void> | null = null;
  /** The async context of whoever set it going last: jobs end in each other's, and the next must not begin in it. */
  #scope = newScope();
  /** What this worker put off although it waits for something under way, and until when: drain() waits for it. */
  readonly #postponed = new Postponed();
  readonly #unanswered = new Unanswered();
  #unlisten: (() => void) | null = null;
  #saidIdle = false;

  constructor(settings: WorkerSettings, services: WorkerServices) {
    this.#settings = settings;
    this.#given = services;
    const { engine, defaults } = services;
    this.#engine = engine;
    const lanes = new Lanes(engine.services.ledger, defaults.secret);
    this.#leased = { engine, defaults, lanes, mayBegin: () => this.#isOpen };
    this.#lines = new Lines(this.#leased, settings.concurrency, {
      isPutOff: (key) => this.#postponed.has(key),
      due: () => this.#awakeSoon(),
    });
    this.#doubts = new DoubtSettler(engine, settings.concurrency, () => this.#awake());
    this.#lost = new LostLeases(this.#leased, () => this.#awake());
    this.#bells = new Doorbells(engine.services.ledger.store, () => this.#awake());
  }

  get status(): WorkerStatus {
    return { state: this.#state, inFlight: this.#running, ...this.#counts };
  }

  on(listener: (event: WorkerEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  async start(): Promise<void> {
    if (this.#state === "running") return;
    await this.#ready();
    this.#requireNotStopped();
    this.#state = "running";
    this.#listen();
    this.#pumping = true;
    this.#awake();
  }

  async stop({ within }: { within?: Duration } = {}): Promise<{ stillRunning: number }> {
    const withinMs = within === undefined ? null : durationMs(within, "worker.stop: within");
    // Stopped before, and not waited for to the end: whoever asks again may wait longer.
    this.#stopping ??= this.#windDown();
    await (withinMs === null ? this.#stopping : noLongerThan(this.#engine.services.clock, this.#stopping, withinMs));
    this.#state = "stopped";
    return { stillRunning: this.#running };
  }

  async #windDown(): Promise<void> {
    this.#state = "stopping";
    this.#pumping = false;
    this.#postponed.stop();
    this.#rest();
    this.#unlisten?.();
    this.#unlisten = null;
    this.#doubts.stop();
    await Promise.all([this.#untilQuiet(), this.#doubts.ended()]);
    await this.#leased.lanes.settled();
    await this.#lost.stop();
    this.#given.active.delete(this);
  }

  async tick(): Promise<number> {
    this.#requireNotStopped();
    await this.#ready();
    if (!this.#isOpen) return 0;
    let ran = 0;
    for (const group of [...this.#groups]) {
      const limit = this.#settings.concurrency - this.#running;
      if (limit < 1) break;
      const rows = await this.#askOnce(group, limit);
      ran += rows.length;
      await Promise.all(rows.map((stored) => new Promise<void>((over) => this.#begin(stored, over))));
      this.#unanswered.refuseIntents(rows.map(({ record }) => record.key));
    }
    this.#perhapsOver();
    return ran;
  }

  /** The same bookkeeping as a fetch of the loop: whoever stops the worker waits for it. */
  async #askOnce(group: LeaseGroup, limit: number): Promise<Stored[]> {
    this.#leasing += 1;
    try {
      const rows = this.#isOpen ? await this.#ask(group, limit) : [];
      if (this.#isOpen) return rows;
      await this.#handBack(rows);
      return [];
    } finally {
      this.#leasing -= 1;
      this.#pumpSoon();
    }
  }

  async drain(): Promise<WorkerStatus> {
    this.#requireNotStopped();
    await this.#ready();
    // Stopped meanwhile: it must not set itself going again.
    if (!this.#isOpen) return this.status;
    const before = this.#pumping;
    this.#pumping = true;
    this.#unanswered.forgetIntents();
    try {
      await this.#untilNothingIsDue();
      if (this.#isOpen) this.#unanswered.refuseIntents();
    } finally {
      this.#pumping = this.#state === "running" || (before && this.#isOpen);
      this.#perhapsOver();
    }
    return this.status;
  }

  async #untilNothingIsDue(): Promise<void> {
    const { ledger, clock } = this.#engine.services;
    const outage = new Outage();
    while (this.#pumping) {
      const { now } = ledger.instant();
      for (const group of this.#groups) group.idle = false;
      this.#pump();
      await this.#untilQuiet();
      await this.#leased.lanes.settled();
      if (!this.#pumping) return;
      const failed = this.#unanswered.failedLook(this.#groups);
      if (failed !== null) {
        await this.#postponed.pause(outage.pauseMs(failed.error), clock);
        continue;
      }
      outage.over();
      // What was due by then and was not taken here is somebody else's by now.
      this.#postponed.forgetUntil(now);
      const next = this.#postponed.earliest();
      if (next === null) return;
      await this.#postponed.until(next, this.#engine.services);
    }
  }

  /** Not stopped. */
  get #isOpen(): boolean {
    return this.#state === "new" || this.#state === "running";
  }

  /** One that was never started has nothing for close() to stop, once it is quiet. */
  #perhapsOver(): void {
    if (this.#state === "new" && this.#running === 0 && this.#leasing === 0) this.#given.active.delete(this);
  }

  // ---- how it gets its work ----

  async #ready(): Promise<void> {
    this.#requireNotStopped();
    this.#scope = newScope();
    this.#given.used();
    this.#given.active.add(this);
    const { ledger } = this.#engine.services;
    const chosen = chosenDefinitions(this.#settings.actions, this.#given.definitions);
    for (const { policy } of chosen) await ledger.admits(policy.doubt.kind);
    this.#definitions = new Map(chosen.map((definition) => [definition.name, definition]));
    this.#groups = leaseGroups(chosen);
  }

  #pump(): void {
    while (this.#pumping && this.#leasing < LEASES_AT_ONCE) {
      const free = this.#settings.concurrency - this.#running - this.#reserved;
      if (free < 1) return;
      if (free < FEW && this.#running > free) {
        this.#gather();
        return;
      }
      const group = this.#nextGroup();
      if (group === null) {
        this.#perhapsIdle();
        return;
      }
      void this.#fetch(group, Math.min(free, LEASE_ROWS));
    }
  }

  #gather(): void {
    this.#gathering ??= this.#engine.services.clock.after(GATHER_MS, () => {
      this.#gathering = null;
      const free = this.#settings.concurrency - this.#running - this.#reserved;
      const group = this.#pumping && free > 0 && this.#leasing < LEASES_AT_ONCE ? this.#nextGroup() : null;
      if (group !== null) void this.#fetch(group, free);
    });
  }

  #nextGroup(): LeaseGroup | null {
    for (let i = 0; i < this.#groups.length; i += 1) {
      this.#turn = (this.#turn + 1) % this.#groups.length;
      const group = this.#groups[this.#turn] as LeaseGroup;
      if (!group.idle) return group;
    }
    return null;
  }

  async #fetch(group: LeaseGroup, limit: number): Promise<void> {
    this.#leasing += 1;
    this.#reserved += limit;
    let rows: Stored[] = [];
    try {
      rows = await this.#ask(group, limit);
      this.#pauseMs = 0;
      group.idle = rows.length < limit;
      this.#unanswered.lookAnswered(group);
    } catch (error) {
      group.idle = true;
      this.#unanswered.lookFailed(group, error);
      this.#emit({ type: "error", error });
      this.#pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * this.#pauseMs));
    } finally {
      this.#leasing -= 1;
      this.#reserved -= limit;
    }
    if (!this.#pumping) await this.#handBack(rows);
    else for (const stored of rows) this.#begin(stored);
    this.#pumpSoon();
  }

  async #ask(group: LeaseGroup, limit: number): Promise<Stored[]> {
    const { ledger, newHolder, unguarded } = this.#engine.services;
    const { leaseMs, actions } = group;
    if (unguarded.size > 0) await unguarded.flush();
    const { tenant } = this.#settings;
    const own = tenant === undefined ? {} : { tenant };
    const to = leasedTo(group, limit);
    const holder = newHolder();
    try {
      const rows = await ledger.lease({ holder, limit, leaseMs, to, actions, ...own });
      learnFrom(group, rows);
      return rows;
    } catch (error) {
      if (to === "sent") this.#lost.add(holder, leaseMs);
      throw error;
    }
  }

  /** Leased while it was told to stop: not begun, and not counted. */
  async #handBack(rows: readonly Stored[]): Promise<void> {
    this.#running += rows.length;
    const { now } = this.#engine.services.ledger.instant();
    await Promise.all(rows.map((stored) => giveBack(this.#leased, stored, now).catch(() => {})));
    this.#running -= rows.length;
  }

  /** Everybody who ends in this turn of the loop gets to free its slot first. */
  #pumpSoon(): void {
    if (this.#soon) return;
    this.#soon = true;
    setImmediate(() => {
      this.#soon = false;
      this.#scope.runInAsyncScope(() => {
        this.#pump();
        this.#perhapsQuiet();
      });
    });
  }

  // ---- what it does with it ----

  #begin(stored: Stored, over: () => void = nobodyWaits): void {
    const { record } = stored;
    const definition = this.#definitions.get(record.action) as Definition;
    this.#running += 1;
    this.#postponed.begun(record.key);
    this.#unanswered.intentBegun(record.key);
    const listener = {
      ended: (ending: Ending) => {
        // What nobody looks at takes no way round by way of the worker's own async context: it is in every job.
        if (ending.as === "done" && this.#listeners.size === 0) this.#counts.done += 1;
        else this.#scope.runInAsyncScope(this.#ended, this, stored, definition, ending);
        this.#over();
        over();
      },
      crashed: (error: unknown) => {
        this.#unanswered.intentCrashed(record.key, error);
        this.#scope.runInAsyncScope(this.#emit, this, { type: "error", error });
        this.#over();
        over();
      },
    };
    if (record.terms?.line === undefined) runLeasedThen(this.#leased, definition, stored, listener);
    else this.#lines.run(definition, stored).then(listener.ended, listener.crashed);
  }

  #ended({ record }: Stored, { name: action }: Definition, ending: Ending): void {
    if ("at" in ending) this.#lookAgain(record.key, ending);
    switch (ending.as) {
      case "done":
        this.#counts.done += 1;
        break;
      case "retry":
        this.#counts.retried += 1;
        break;
      case "failed":
        this.#counts.failed += 1;
        if (ending.why === "expired") this.#counts.expired += 1;
        break;
      case "unknown":
        this.#counts.inDoubt += 1;
        this.#doubts.add(ending.call, ending.stored);
        break;
      case "given-back":
        this.#counts.givenBack += 1;
        break;
      case "moved":
        break;
    }
    if (this.#listeners.size > 0) {
      const why = ending.as === "failed" ? { why: ending.why } : {};
      this.#emit({ type: "finished", action, key: record.key, as: ending.as, ...why });
    }
  }

  #over(): void {
    this.#running -= 1;
    this.#saidIdle = false;
    this.#pumpSoon();
  }

  // ---- when it has none ----

  #awake(): void {
    if (!this.#pumping) return;
    for (const group of this.#groups) group.idle = false;
    this.#rest();
    this.#arm();
    this.#pump();
  }

  #rest(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#bells.unwatch();
  }

  /** Looking now and then is the backstop; new work announces itself, and what was put off says until when. */
  #arm(): void {
    const { clock, random, ledger } = this.#engine.services;
    if (this.#timer !== null || this.#state !== "running") return;
    const eager = clock.monotonic() < this.#eagerUntil;
    const usual = (eager ? EAGER_POLL_MS : this.#settings.pollMs) * (0.8 + 0.4 * random());
    const due = this.#nextDueAt - ledger.instant().now;
    const ms = Math.max(this.#pauseMs, Math.min(usual, Math.max(1, due)));
    this.#timer = clock.after(ms, () => {
      this.#timer = null;
      this.#nextDueAt = Number.POSITIVE_INFINITY;
      this.#awake();
    });
  }

  #lookAgain(key: string, { at, soon = false }: { at: number; soon?: boolean }): void {
    // What is due already, or soon, drain() waits for.
    if (soon || at <= this.#engine.services.ledger.instant().now) this.#postponed.add(key, at);
    if (at >= this.#nextDueAt) return;
    this.#nextDueAt = at;
    this.#timer?.cancel();
    this.#timer = null;
    this.#arm();
  }

  #listen(): void {
    const { events, clock } = this.#engine.services;
    this.#unlisten = events.on((event) => {
      if (!isEnqueued(event) || !this.#definitions.has(event.action)) return;
      // In a transaction it can be seen only after the commit, of which nobody tells us: look often for a while.
      this.#eagerUntil = clock.monotonic() + EAGER_MS;
      if (this.#running < this.#settings.concurrency) this.#awakeSoon();
    });
  }

  #waking = false;
  /** A thousand enqueues of one tick are one piece of news. */
  #awakeSoon(): void {
    if (this.#waking) return;
    this.#waking = true;
    setImmediate(() => {
      this.#waking = false;
      this.#awake();
    });
  }

  #perhapsIdle(): void {
    if (this.#running > 0 || this.#leasing > 0) return;
    if (this.#state === "running") {
      this.#bells.watch([...this.#definitions.keys()], this.#settings.tenant);
      this.#arm();
    }
    if (this.#unanswered.failedLook(this.#groups) === null) {
      if (!this.#saidIdle) this.#emit({ type: "idle" });
      this.#saidIdle = true;
    }
    this.#perhapsQuiet();
  }

  #perhapsQuiet(): void {
    const more = this.#pumping && this.#groups.some(({ idle }) => !idle);
    if (this.#running > 0 || this.#leasing > 0 || more) return;
    const waiting = this.#quiet;
    this.#quiet = [];
    for (const tell of waiting) tell();
  }

  #untilQuiet(): Promise<void> {
    return new Promise((done) => {
      this.#quiet.push(done);
      this.#pumpSoon();
    });
  }

  #requireNotStopped(): void {
    if (this.#state !== "stopping" && this.#state !== "stopped") return;
    throw new NevertwiceError("CONFIG", "this worker was stopped. Make a new one with nt.worker().");
  }

  #emit(event: WorkerEvent): void {
    for (const listener of this.#listeners) {
      try {
        outside(listener, event);
      } catch (error) {
        // A watcher's bug must not touch what it watches, nor stay hidden.
        process.emitWarning(`nevertwice: a worker's listener threw: ${redact(String(error))}`, {
          type: "NevertwiceWarning",
        });
      }
    }
  }
}
