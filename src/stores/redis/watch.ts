/**
 * Waking those who wait: callers for a record, idle workers for due work. The script that writes says on one channel which
 * records were let go of, on another whose doorbell it rang. A process subscribes when somebody first has to wait, over a
 * connection of its own for each channel: settles are many, and an idle worker must not hear all of them. Everything here
 * is a hint: what is missed is found by looking.
 */
import { isDoorbell } from "../../core/doorbell.ts";
import { clearTimeout, type RealTimer, setImmediate, setTimeout } from "../../engine/real-timers.ts";
import { Watchers } from "../shared/watchers.ts";
import type { Names } from "./buckets.ts";
import type { Ear, Wire } from "./client.ts";
import { keyOfEntry } from "./members.ts";

// After a failure to subscribe, or a subscription the driver gave up: long enough not to make it worse.
const TRY_AGAIN_MS = 5_000;
// Doorbells that are listened for between two waits; of more, work that comes right then is found by looking.
const MOST_KEPT = 1_000;

export class RedisWatch {
  readonly #settled: Channel;
  readonly #due: Channel;

  constructor(wire: () => Promise<Wire>, names: Names) {
    this.#settled = new Channel(wire, names, { name: ":settled", keyOf: keyOfEntry, keepsMissed: false });
    this.#due = new Channel(wire, names, { name: ":due", keyOf: (bell) => bell, keepsMissed: true });
  }

  watch(key: string, wake: () => void): () => void {
    return (isDoorbell(key) ? this.#due : this.#settled).watch(key, wake);
  }

  async close(): Promise<void> {
    await Promise.all([this.#settled.close(), this.#due.close()]);
  }
}

interface ChannelOptions {
  readonly name: string;
  /** The key that a line of a message is about. */
  readonly keyOf: (line: string) => string;
  /**
   * Whether who comes to watch is told of what was said since it last stopped watching: between a look and the watch work
   * may come, and nobody would say so again. Waiting callers look soon by themselves.
   */
  readonly keepsMissed: boolean;
}

class Channel {
  readonly #wire: () => Promise<Wire>;
  readonly #names: Names;
  readonly #options: ChannelOptions;
  readonly #watchers = new Watchers();
  readonly #missed = new Set<string>();
  #ear: Promise<Ear | null> | null = null;
  #retry: RealTimer | null = null;
  #closed = false;

  constructor(wire: () => Promise<Wire>, names: Names, options: ChannelOptions) {
    this.#wire = wire;
    this.#names = names;
    this.#options = options;
  }

  watch(key: string, wake: () => void): () => void {
    this.#listen();
    const stop = this.#watchers.add(key, wake, () => this.#options.keepsMissed && this.#watchers.size <= MOST_KEPT);
    if (this.#missed.delete(key)) setImmediate(() => this.#wake(key));
    return stop;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#watchers.clear();
    await (await this.#ear)?.close();
  }

  #listen(): void {
    if (this.#ear !== null || this.#retry !== null || this.#closed) return;
    this.#ear = this.#subscribe().catch(() => {
      this.#lost();
      return null;
    });
  }

  async #subscribe(): Promise<Ear> {
    const wire = await this.#wire();
    const { channels, indexes } = this.#names;
    const names = (wire.cluster ? indexes : [channels]).map((one) => `${one}${this.#options.name}`);
    const ear = await wire.listen(
      names,
      (message) => this.#heard(message),
      () => this.#lost(),
    );
    // What was said before this moment, nobody here has heard.
    if (this.#options.keepsMissed) for (const key of this.#watchers.keys()) this.#wake(key);
    return ear;
  }

  #lost(): void {
    this.#ear = null;
    if (this.#retry !== null || this.#closed) return;
    this.#retry = setTimeout(() => {
      this.#retry = null;
      if (this.#watchers.size > 0) this.#listen();
    }, TRY_AGAIN_MS);
    this.#retry.unref();
  }

  #heard(message: string): void {
    if (this.#watchers.size === 0) return;
    for (const line of message.split("\n")) this.#wake(this.#options.keyOf(line));
  }

  #wake(key: string): void {
    if (this.#watchers.wake(key) === 0) this.#missed.add(key);
  }
}
