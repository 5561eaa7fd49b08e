/**
 * When the background sweep works and when it rests. It goes on while there is more to do: a fixed batch followed by a
 * fixed rest would remove so many records a second and no more, and a busier ledger would grow for ever. Its pauses are
 * in proportion to how long a pass took, so that callers hardly notice it, however slow the store is at the moment.
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
  remove(): Promise<Pass>;
}

// A pass that took 20 ms is followed by a pause of 60 ms: a quarter of the time at the most.
const PAUSE_PER_MS = 3;
const SHORTEST_PAUSE_MS = 5;
// A round that changed nothing may be long, since some stores have to read every record. Such rounds take one two-hundredth
// of the time. Each changed record is worth a tenth of a millisecond: while there is work, rounds follow each other.
const REST_PER_IDLE_MS = 200;
const WORTH_MS = 0.1;
const LONGEST_REST_MS = 600_000;

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
      new Rounds(options, () => work.remove(), REST_PER_IDLE_MS),
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
  readonly #pass: () => Promise<Pass>;
  readonly #restPerIdleMs: number;
  #timer: Timer | null = null;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();
  #tookMs = 0;
  #changed = 0;

  constructor(options: SweepLoopOptions, pass: () => Promise<Pass>, restPerIdleMs: number) {
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
    const { clock, everyMs } = this.#options;
    const started = clock.monotonic();
    const { changed, more } = await this.#onePass();
    const tookMs = clock.monotonic() - started;
    this.#tookMs += tookMs;
    this.#changed += changed;
    this.#arm(more ? Math.min(everyMs, Math.max(SHORTEST_PAUSE_MS, PAUSE_PER_MS * tookMs)) : this.#rest());
  }

  /** A pass that failed ends its round: a store that is down is asked again after the rest. */
  async #onePass(): Promise<Pass> {
    try {
      return await this.#pass();
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
    const restMs = Math.max(everyMs, Math.min(LONGEST_REST_MS, this.#restPerIdleMs * idleMs));
    return restMs * (0.8 + 0.4 * random());
  }
}
