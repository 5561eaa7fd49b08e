/** What is opened once, at the first use. Where that failed, the next use tries again. */
export class Opening<T> {
  readonly #open: () => Promise<T>;
  #begun: Promise<T> | null = null;

  constructor(open: () => Promise<T>) {
    this.#open = open;
  }

  get(): Promise<T> {
    this.#begun ??= this.#open().catch((error: unknown) => {
      this.#begun = null;
      throw error;
    });
    return this.#begun;
  }

  /** What was opened, without opening it; null: it was not, or could not be. */
  async opened(): Promise<T | null> {
    return (await this.#begun?.catch(() => null)) ?? null;
  }
}
