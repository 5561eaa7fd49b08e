/** A map that begins anew where it would become too large: for what is found out again when it is forgotten. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #most: number;

  constructor(most: number) {
    super();
    this.#most = most;
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#most && !this.has(key)) this.clear();
    return super.set(key, value);
  }
}

/** How far the sweeps of each tenant (undefined: of all) have come: one must not pass over what is another's to remove. */
export class SweepPlaces<Place> extends BoundedMap<string | undefined, Place> {
  constructor() {
    super(1_000);
  }
}
