/** Who waits for a wake-up, by what they wait for. */
export class Watchers {
  readonly #wakes = new Map<string, Set<() => void>>();

  get size(): number {
    return this.#wakes.size;
  }

  keys(): string[] {
    return [...this.#wakes.keys()];
  }

  /** `left`: called when the last that waits for the key has gone; where it returns true, the key is still listened for. */
  add(key: string, wake: () => void, left: () => boolean = () => false): () => void {
    const wakes = this.#wakes.get(key) ?? new Set();
    this.#wakes.set(key, wakes.add(wake));
    return () => {
      wakes.delete(wake);
      if (wakes.size === 0 && this.#wakes.get(key) === wakes && !left()) this.#wakes.delete(key);
    };
  }

  /** How many were woken; null: nobody listens for the key. */
  wake(key: string): number | null {
    const wakes = this.#wakes.get(key);
    if (wakes === undefined) return null;
    const all = [...wakes];
    for (const wake of all) wake();
    return all.length;
  }

  clear(): void {
    this.#wakes.clear();
  }
}
