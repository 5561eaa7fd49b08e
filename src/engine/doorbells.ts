/** Waiting for new work where the store can wake those who watch; elsewhere it does nothing, and polling finds the work. */
import { doorbellOf } from "../core/doorbell.ts";
import type { Store } from "../core/store.ts";

// More actions than this are served by polling.
const MOST = 64;

export class Doorbells {
  readonly #store: Store;
  readonly #rung: () => void;
  #unwatch: (() => void)[] = [];

  constructor(store: Store, rung: () => void) {
    this.#store = store;
    this.#rung = rung;
  }

  /** For work of one tenant, or of all. */
  watch(actions: readonly string[], tenant: string | undefined): void {
    this.unwatch();
    if (this.#store.watch === undefined || actions.length > MOST) return;
    const { watch } = this.#store;
    this.#unwatch = actions.map((action) => watch.call(this.#store, doorbellOf(action, tenant), this.#rung));
  }

  unwatch(): void {
    for (const one of this.#unwatch) one();
    this.#unwatch = [];
  }
}
