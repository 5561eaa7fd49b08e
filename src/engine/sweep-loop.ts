/**
 * When the background sweep works and when it rests. It goes on while there is more to do: a fixed batch followed by a
 * fixed rest would remove so many records a second and no more, and a busier ledger would grow for ever. Its pauses are
 * in proportion to how long a pass took, so that callers hardly notice it, however slow the store is at the moment.
 *
 * On a busy store a pass mostly waits for its turn, however much it does in it. So passes grow while they are full: twice as
 * large each time, up to ten times. The store cuts a large pass into short transactions.
 */
import type { Clock, Timer } from "./clock.ts";

/** What a bounded piece of work came to. */
export interface Pass {
  /** Records that were changed or removed. */
  readonly changed: number;
  /** There is more to do at once. */
  readonly more: boolean;
}

/** Each kind of work keeps its own time: a long backlog of one must not delay another. */
export interface SweepWork {
  lapse(): Promise<Pass>;
  settle(): Promise<Pass>;
  /** `times`: how many times as much as in a first pass. */
  remove(times: number): Promise<Pass>;
}

// A first pass that took 20 ms is followed by a pause of 60 ms: a quarter of the time at the most. The larger the backlog
// makes the passes, the shorter are the pauses, down to a quarter of a pass.
const PAUSE_PER_MS = 3;
const SHORTEST_PAUSE_PER_MS = 0.25;
const SHORTEST_PAUSE_MS = 5;
const MOST_TIMES = 10;
// A round that changed nothing may be long, since some stores have to read every record. Such rounds take one two-hundredth
// of the time. Each changed record is worth a millisecond, since on a busy store a pass mostly waits for its turn: while there is
// work, rounds follow each other.
const REST_PER_IDLE_MS = 200;
const WORTH_MS = 1;
const LONGEST_REST_MS = 600_000;
// One slow round may have waited behind the writes of callers, and what they wrote expires soon: a rest is at most twice as long
// as the one before it.

export interface SweepLoopOptions {
  readonly work: SweepWork;
  readonly clock: Clock;
  readonly everyMs: number;
  readonly random: () => number;
  readonly onError: (error: unknown) => void;
}

export class SweepLoop {
  readonly #rounds: readonly Rounds[];

  constructor(options: SweepLoopOptions) {
    const { work } = options;
    this.#rounds = [
      // A silent holder must become visible within one sweep, however long it takes to look: no longer rests.
      new Rounds(options, () => work.lapse(), 0),
      new Rounds(options, () => work.settle(), REST_PER_IDLE_MS),
      new Rounds(options, (times) => work.remove(times), REST_PER_IDLE_MS),
    ];
  }

  start(): void {
    for (const one of this.#rounds) one.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#rounds.map((one) => one.stop()));
  }
}

/** Passes of one kind of work: a round of them, a rest, the next round. Never keeps the process alive. */
class Rounds {
  readonly #options: SweepLoopOptions;
  readonly #pass: (times: number) => Promise<Pass>;
  readonly #restPerIdleMs: number;
  #timer: Timer | null = null;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();
  #tookMs = 0;
  #changed = 0;
  #times = 1;
  #restMs = 0;

  constructor(options: SweepLoopOptions, pass: (times: number) => Promise<Pass>, restPerIdleMs: number) {
    this.#options = options;
    this.#pass = pass;
    this.#restPerIdleMs = restPerIdleMs;
  }

  start(): void {
    if (this.#timer !== null || this.#stopped) return;
    // Spread out, so that many processes started together do not sweep together.
    this.#arm(this.#options.everyMs * (0.1 + 0.4 * this.#options.random()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#running;
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(
      ms,
      () => {
        this.#running = this.#run();
      },
      true,
    );
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const started = clock.monotonic();
    const { changed, more } = await this.#onePass();
    const tookMs = clock.monotonic() - started;
    this.#tookMs += tookMs;
    this.#changed += changed;
    this.#arm(more ? this.#pause(tookMs) : this.#rest());
    // Halved, not begun anew: on a busy ledger the next round finds as much.
    this.#times = more ? Math.min(MOST_TIMES, 2 * this.#times) : Math.max(1, Math.floor(this.#times / 2));
  }

  #pause(tookMs: number): number {
    const perMs = Math.max(SHORTEST_PAUSE_PER_MS, PAUSE_PER_MS / this.#times);
    return Math.min(this.#options.everyMs, Math.max(SHORTEST_PAUSE_MS, perMs * tookMs));
  }

  /** A pass that failed ends its round: a store that is down is asked again after the rest. */
  async #onePass(): Promise<Pass> {
    try {
      return await this.#pass(this.#times);
    } catch (error) {
      try {
        this.#options.onError(error);
      } catch {
        // A logger that throws must not end the sweeping.
      }
      return { changed: 0, more: false };
    }
  }

  #rest(): number {
    const { everyMs, random } = this.#options;
    const idleMs = Math.max(0, this.#tookMs - WORTH_MS * this.#changed);
    this.#tookMs = 0;
    this.#changed = 0;
    const wantedMs = Math.max(everyMs, Math.min(LONGEST_REST_MS, this.#restPerIdleMs * idleMs));
    const restMs = Math.min(wantedMs, 2 * Math.max(everyMs, this.#restMs));
    this.#restMs = restMs;
    return restMs * (0.8 + 0.4 * random());
  }
}
