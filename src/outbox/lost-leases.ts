/**
 * Leases straight to `sent` whose reply never came. The store may have carried them out: then their records count as sent,
 * and nothing was begun. Only this worker knows that, by the holder it named. It gives them back once their lease is over,
 * also where a sweep has called them unknown meanwhile.
 */
import type { Stored } from "../core/store.ts";
import type { Timer } from "../engine/clock.ts";
import { giveBack } from "../engine/leased-record.ts";
import type { LeasedServices } from "./leased.ts";

// Beyond this the oldest are left as doubts, where people see them.
const MOST_REMEMBERED = 1_000;
const PAGE = 200;
const MOST_PAGES = 50;
// A clock of the store that is a little behind ours must not make the first look too early.
const AFTER_LEASE_MS = 250;

export class LostLeases {
  readonly #services: LeasedServices;
  readonly #found: () => void;
  readonly #holders = new Map<string, { readonly overAt: number }>();
  #timer: Timer | null = null;
  #looking: Promise<void> = Promise.resolve();
  #stopped = false;

  /** `found`: something is due again. */
  constructor(services: LeasedServices, found: () => void) {
    this.#services = services;
    this.#found = found;
  }

  add(holder: string, leaseMs: number): void {
    const { clock } = this.#services.engine.services;
    const [oldest] = this.#holders.keys();
    if (this.#holders.size >= MOST_REMEMBERED && oldest !== undefined) this.#holders.delete(oldest);
    this.#holders.set(holder, { overAt: clock.monotonic() + leaseMs + AFTER_LEASE_MS });
    this.#arm(leaseMs + AFTER_LEASE_MS);
  }

  /** Looks for them a last time, whether their lease is over or not. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#looking;
    // A store that does not answer leaves them as they are.
    if (this.#holders.size > 0) await this.#look(false).catch(() => {});
    this.#holders.clear();
  }

  #arm(ms: number): void {
    if (this.#timer !== null || this.#stopped) return;
    const { clock } = this.#services.engine.services;
    this.#timer = clock.after(
      ms,
      () => {
        this.#timer = null;
        this.#looking = this.#lookAgain(ms);
      },
      true,
    );
  }

  async #lookAgain(ms: number): Promise<void> {
    const { clock } = this.#services.engine.services;
    const now = clock.monotonic();
    try {
      const over = [...this.#holders].filter(([, { overAt }]) => overAt <= now).map(([holder]) => holder);
      await this.#look(true);
      for (const holder of over) this.#holders.delete(holder);
    } catch {
      // The store does not answer yet: looked for again.
    }
    if (this.#holders.size > 0) this.#arm(ms);
  }

  async #look(lapsed: boolean): Promise<void> {
    const given =
      (await this.#giveBackAmong({ states: ["sent"], ...(lapsed && { lapsed }) })) +
      (await this.#giveBackAmong({ states: ["unknown"] }));
    if (given > 0) this.#found();
  }

  async #giveBackAmong(query: { states: readonly ("sent" | "unknown")[]; lapsed?: boolean }): Promise<number> {
    const { ledger } = this.#services.engine.services;
    const mine: Stored[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < MOST_PAGES && (page === 0 || cursor !== null); page += 1) {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const found = await ledger.list({ ...query, ...from, limit: PAGE, order: "newest" });
      mine.push(...found.items.filter(({ record }) => this.#holders.has(record.holder ?? "")));
      cursor = found.cursor;
    }
    const { now } = ledger.instant();
    const ends = await Promise.all(mine.map((stored) => giveBack(this.#services, stored, now)));
    return ends.filter(({ as }) => as === "given-back").length;
  }
}
