/**
 * Waking those who wait for a record. The script that settles publishes the records it freed; a process subscribes when
 * its first caller has to wait, over a connection of its own. A hint: what is missed is found by looking.
 */
import type { Names } from "./redis-buckets.ts";
import type { Ear, Wire } from "./redis-client.ts";
import { keyOfEntry } from "./redis-index.ts";

// After a failure to subscribe: long enough not to make it worse.
const TRY_AGAIN_MS = 5_000;

export class RedisWatch {
  readonly #wire: () => Promise<Wire>;
  readonly #names: Names;
  readonly #watchers = new Map<string, Set<() => void>>();
  #ear: Promise<Ear | null> | null = null;
  #notBefore = 0;
  #closed = false;

  constructor(wire: () => Promise<Wire>, names: Names) {
    this.#wire = wire;
    this.#names = names;
  }

  watch(key: string, wake: () => void): () => void {
    this.#listen();
    const watchers = this.#watchers.get(key) ?? new Set();
    this.#watchers.set(key, watchers);
    watchers.add(wake);
    return () => {
      watchers.delete(wake);
      if (watchers.size === 0 && this.#watchers.get(key) === watchers) this.#watchers.delete(key);
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watchers.clear();
    await (await this.#ear)?.close();
  }

  #listen(): void {
    if (this.#ear !== null || this.#closed || performance.now() < this.#notBefore) return;
    this.#ear = this.#subscribe().catch(() => {
      this.#ear = null;
      this.#notBefore = performance.now() + TRY_AGAIN_MS;
      return null;
    });
  }

  async #subscribe(): Promise<Ear> {
    const wire = await this.#wire();
    const channels = wire.cluster ? this.#names.indexes.map((index) => `${index}:settled`) : [this.#names.channel];
    return wire.listen(channels, (message) => this.#heard(message));
  }

  #heard(message: string): void {
    if (this.#watchers.size === 0) return;
    for (const entry of message.split("\n")) {
      for (const wake of this.#watchers.get(keyOfEntry(entry)) ?? []) wake();
    }
  }
}
