/**
 * Answers that have arrived at whoever called, of actions whose records guard until then. The next call in this process knows
 * it at once. The ledger is told a moment later, many together: a mark that is lost with the process is on the safe side,
 * because a repeat then gets the first answer again.
 */
import type { Outcome } from "../core/outcome.ts";
import type { Policy } from "../core/policy.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { transition } from "../core/transition.ts";
import type { Clock, Timer } from "./clock.ts";
import type { Applied, Ledger } from "./ledger.ts";

const WRITE_AFTER_MS = 500;
// Beyond this they are written at once.
const MOST_UNWRITTEN = 1_000;

export class Delivered {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  /** The fence of the attempt whose answer has arrived, by key. */
  readonly #known = new Map<string, number>();
  #timer: Timer | null = null;

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  has(key: string): boolean {
    return this.#known.size > 0 && this.#known.has(key);
  }

  add(key: string, fence: number): void {
    this.#known.set(key, fence);
    if (this.#known.size > MOST_UNWRITTEN) void this.flush();
    else this.#timer ??= this.#clock.after(WRITE_AFTER_MS, () => void this.flush(), true);
  }

  /** It had not arrived after all. False: the ledger has been told. */
  takeBack(key: string, fence: number): boolean {
    return this.#known.get(key) === fence && this.#known.delete(key);
  }

  /** A record as the ledger would have it if it had been told already. */
  seen(stored: Stored | null): Stored | null {
    if (stored === null || !this.has(stored.record.key)) return stored;
    const { record, version } = stored;
    const fence = this.#known.get(record.key) as number;
    if (record.fence > fence) {
      this.#known.delete(record.key);
      return stored;
    }
    const at = this.#ledger.instant();
    const change = transition(record, { type: "delivered", fence }, at);
    if (change.ok) return { record: change.record, version };
    // Over for the ledger before its answer came: the answer is on its way there, too.
    return record.state === "unknown" && record.fence === fence
      ? { record: { ...record, expiresAt: at.now }, version }
      : stored;
  }

  /** It is over, whether its answer has arrived or not. False: the record guards on. */
  async end({ key, fence }: Pick<LedgerRecord, "key" | "fence">): Promise<boolean> {
    const applied = await this.#ledger.apply(await this.#ledger.read(key), { type: "delivered", fence });
    return applied.ok || applied.refusal === "stale";
  }

  /** Never throws: what cannot be written is not known to the next process, which is on the safe side. */
  async flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    await Promise.all([...this.#known].map(([key, fence]) => this.#write(key, fence).catch(() => {})));
  }

  async #write(key: string, fence: number): Promise<void> {
    const event = () => (this.#known.get(key) === fence ? ({ type: "delivered", fence } as const) : null);
    try {
      await this.#ledger.apply(await this.#ledger.read(key), event);
    } finally {
      if (this.#known.get(key) === fence) this.#known.delete(key);
    }
  }
}

const FENCE = Symbol("fence");

/** With the fence of the attempt that the outcome is of, where the caller will tell that it has arrived. */
export function withFence<O extends Outcome<unknown>>(outcome: O, policy: Policy, fence: number): O {
  return policy.untilDelivered === true ? { ...outcome, [FENCE]: fence } : outcome;
}

/** Null: it is not known whose answer it is. */
export function fenceOf(outcome: Outcome<unknown>): number | null {
  return (outcome as { readonly [FENCE]?: number })[FENCE] ?? null;
}

/** Refused because of another success. A stale one is of a call before: one whose own answer had arrived. */
export function isAnother(
  applied: Extract<Applied, { readonly ok: false }>,
): applied is typeof applied & { stored: Stored } {
  return applied.stored !== null && applied.refusal !== "stale";
}

const TELL = Symbol("tell of deliveries");

/** How whoever calls an action tells that its answer has arrived, or has not after all. */
export function withDelivered<A extends object>(action: A, delivered: Delivered): A {
  return Object.defineProperty(action, TELL, { value: delivered });
}

/** Undefined: its records are kept, delivered or not. */
export function deliveredOf(action: object): Delivered | undefined {
  return (action as { readonly [TELL]?: Delivered })[TELL];
}
