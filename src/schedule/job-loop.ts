/**
 * When a job's slots are run. One at a time in this process; the ledger sees to it that no other process runs the same.
 * The loop wakes for the next instant, and at least once a minute: a wall clock that was set, or a machine that slept,
 * is noticed then.
 */
import { configError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Clock, Timer } from "../engine/clock.ts";
import type { Timetable } from "./timetable.ts";

export type CatchUp = "none" | "last" | { readonly all: number };

export interface JobLoopOptions<R> {
  readonly times: Timetable;
  readonly catchUp: CatchUp;
  /** A slot in doubt may be settled without a person: it is looked at again. */
  readonly settles: boolean;
  readonly now: () => number;
  readonly clock: Clock;
  readonly attempt: (at: number) => Promise<Outcome<R>>;
  /** When the job was first seen by anybody. */
  readonly since: () => Promise<number>;
  /** Slots before this instant may be done and forgotten. Asked before the slot of `at` is run. */
  readonly knownFrom: (at: number) => Promise<number>;
  /** Due, and not run, because the ledger may have forgotten that they are done. */
  readonly onForgotten: (instants: readonly number[]) => void;
  readonly onError: (error: unknown) => void;
}

const LONGEST_SLEEP_MS = 60_000;
/** Without catching up, an instant may still be this late: timers and machines are. */
const LATE_MS = 60_000;
const MOST_CATCH_UP = 1_000;
// A doubt that is not settled yet: something of the attempt still runs, or it is held. About two days.
const MOST_LOOKS = 50;
const LONGEST_PAUSE_MS = 3_600_000;
// Slots whose end is not known yet; beyond this the oldest are left to whoever looks at the ledger.
const MOST_OPEN = 1_000;

export function checkCatchUp(catchUp: CatchUp, where: string): void {
  if (catchUp === "none" || catchUp === "last") return;
  const { all } = (catchUp ?? {}) as { all?: unknown };
  if (Number.isSafeInteger(all) && (all as number) >= 1 && (all as number) <= MOST_CATCH_UP) return;
  throw configError(
    `${where}: catchUp is ${JSON.stringify(catchUp)}; it takes "none", "last" or { all: n } with n from 1 to ${MOST_CATCH_UP}.`,
  );
}

interface Open {
  looks: number;
  /** Look again then. */
  dueAt: number;
}

export class JobLoop<R> {
  readonly #options: JobLoopOptions<R>;
  readonly #open = new Map<number, Open>();
  /** All instants up to here have been looked at. */
  #seen: number | null = null;
  #ticking: Promise<unknown> = Promise.resolve();
  #timer: Timer | null = null;
  #started = false;
  #stopped = false;

  constructor(options: JobLoopOptions<R>) {
    this.#options = options;
  }

  start(): void {
    if (this.#started || this.#stopped) return;
    this.#started = true;
    this.#arm(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = null;
    await this.#ticking;
  }

  /** One after the other: a tick that comes while another one runs waits for it. */
  tick(): Promise<{ at: number; outcome: Outcome<R> }[]> {
    const ticked = this.#ticking.then(() => this.#tick());
    this.#ticking = ticked.catch(() => {});
    return ticked;
  }

  async #tick(): Promise<{ at: number; outcome: Outcome<R> }[]> {
    if (this.#stopped) return [];
    const runs: { at: number; outcome: Outcome<R> }[] = [];
    const forgotten: number[] = [];
    for (const at of await this.#due()) {
      if (this.#stopped) break;
      // Asked for each: the runs before it may have taken hours.
      if (at < (await this.#options.knownFrom(at))) {
        this.#open.delete(at);
        forgotten.push(at);
        continue;
      }
      runs.push({ at, outcome: await this.#run(at) });
    }
    if (forgotten.length > 0) this.#options.onForgotten(forgotten);
    return runs;
  }

  async #due(): Promise<number[]> {
    const now = this.#options.now();
    // Open until their end is known: a store that fails in the middle of a tick loses none of them.
    for (const at of await this.#freshInstants(now)) if (!this.#open.has(at)) this.#keepOpen(at, 0, now);
    const due = [...this.#open].filter(([, { dueAt }]) => dueAt <= now).map(([at]) => at);
    return due.sort((a, b) => a - b);
  }

  async #freshInstants(now: number): Promise<number[]> {
    const { times, catchUp } = this.#options;
    const from = this.#seen ?? (await this.#firstLook(now));
    // A wall clock that was set back: what was looked at stays looked at.
    this.#seen = Math.max(from, now);
    const most = typeof catchUp === "object" ? catchUp.all : 1;
    const passed = times.upTo(now, most).filter((at) => at > from);
    return catchUp === "none" ? passed.filter((at) => now - at <= LATE_MS) : passed;
  }

  async #firstLook(now: number): Promise<number> {
    const since = await this.#options.since();
    // An instant that is this very moment is not the past.
    return this.#options.catchUp === "none" ? now - 1 : since - 1;
  }

  async #run(at: number): Promise<Outcome<R>> {
    const looks = (this.#open.get(at)?.looks ?? 0) + 1;
    let outcome: Outcome<R>;
    try {
      outcome = await this.#options.attempt(at);
    } catch (error) {
      // The store was down, most likely: the slot stays open, and is looked at again.
      this.#keepOpen(at, looks, this.#options.now() + LONGEST_SLEEP_MS / 2);
      throw error;
    }
    const again = this.#lookAgainAt(outcome, looks);
    if (again === null) this.#open.delete(at);
    else this.#keepOpen(at, looks, again);
    return outcome;
  }

  /** Null: settled, or for somebody else to settle. */
  #lookAgainAt(outcome: Outcome<R>, looks: number): number | null {
    const now = this.#options.now();
    switch (outcome.status) {
      case "in_flight":
        // Its holder may end, or die, long before its lease does.
        return Math.min(Math.max(outcome.until, now + 1), now + LONGEST_SLEEP_MS);
      case "failed":
        // How often is counted in the ledger, over all processes: without a time for the next try there is none.
        return outcome.final || outcome.retryAt === undefined ? null : Math.max(outcome.retryAt, now + 1);
      case "unknown":
        if (!this.#options.settles || looks > MOST_LOOKS) return null;
        return now + Math.min(LONGEST_PAUSE_MS, (LONGEST_SLEEP_MS / 2) * 2 ** Math.min(looks - 1, 10));
      default:
        return null;
    }
  }

  #keepOpen(at: number, looks: number, dueAt: number): void {
    this.#open.set(at, { looks, dueAt });
    const [oldest] = this.#open.keys();
    if (this.#open.size > MOST_OPEN && oldest !== undefined) this.#open.delete(oldest);
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(ms, () => this.#wake());
  }

  #wake(): void {
    this.tick()
      .catch(this.#options.onError)
      .finally(() => this.#arm(this.#sleepMs()));
  }

  #sleepMs(): number {
    const now = this.#options.now();
    const next = this.#options.times.next(now) ?? Number.POSITIVE_INFINITY;
    const wake = Math.min(next, ...[...this.#open.values()].map(({ dueAt }) => dueAt));
    return Math.min(LONGEST_SLEEP_MS, Math.max(1, wake - now));
  }
}
