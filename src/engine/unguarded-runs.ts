/**
 * What this process ran while the store was down. The same intent is not run again meanwhile, and the records are written
 * when the store is back. Kept in memory: a process that ends before that has told nobody.
 */
import { NevertwiceError } from "../core/errors.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { LedgerEvent } from "../core/transition.ts";
import { type Call, intentOf } from "./call.ts";
import type { Clock, Timer } from "./clock.ts";
import { by, type Events, type Warnings } from "./events.ts";
import type { Ledger } from "./ledger.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";
import type { ProviderIds } from "./provider-ids.ts";
import { hasSameId } from "./same-effect.ts";
import type { Untold } from "./untold.ts";

type Ran = Extract<LedgerEvent, { readonly type: "ran-unguarded" }>;

export interface UnguardedRun {
  readonly call: Call;
  /** As the ledger would have it. */
  readonly record: LedgerRecord;
  /** confirmed: what it came to. */
  readonly value?: unknown;
  /** The claim is in the ledger, and the end of the attempt waits among what is not told yet. */
  readonly claimed: boolean;
}

interface Services {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly events: Events;
  readonly payloads: Payloads;
  readonly providerIds: ProviderIds;
  readonly warnings: Warnings;
  readonly untold: Untold;
}

const MOST_RUNS = 10_000;
const RETRY_MS = 1_000;

export class UnguardedRuns {
  readonly #services: Services;
  readonly #runs = new Map<string, UnguardedRun>();
  #timer: Timer | null = null;

  constructor(services: Services) {
    this.#services = services;
  }

  get size(): number {
    return this.#runs.size;
  }

  has(key: string): boolean {
    return this.#runs.size > 0 && this.#runs.has(key);
  }

  recordOf(key: string): LedgerRecord | null {
    return this.#runs.get(key)?.record ?? null;
  }

  remember(run: UnguardedRun): void {
    const { key } = run.record;
    this.#runs.delete(key);
    if (this.#runs.size >= MOST_RUNS) this.#forgetOldest();
    this.#runs.set(key, run);
    this.#arm();
  }

  #forgetOldest(): void {
    const [oldest] = this.#runs;
    if (oldest === undefined) return;
    const [key, { call }] = oldest;
    this.#runs.delete(key);
    this.#services.warnings.warn(
      "UNGUARDED_FORGOTTEN",
      call.definition.name,
      `more than ${MOST_RUNS} intents were run while the store is down. The oldest are forgotten: a repeat of them runs again, and the ledger will not know of them. Restore the store, or use whenStoreDown: "refuse".`,
    );
  }

  /** Throws where the store is still down. */
  async write(key: string): Promise<void> {
    const run = this.#runs.get(key);
    // Still running: what is true about it is not known yet.
    if (run === undefined || run.record.state === "sent") return;
    const { ledger, untold } = this.#services;
    if (run.claimed) await untold.tick();
    const before = await ledger.read(key);
    if (!run.claimed) await this.#writeRun(run, before);
    // Another attempt may have replaced it meanwhile: that one is written by itself.
    if (this.#runs.get(key) === run) this.#runs.delete(key);
  }

  async #writeRun(run: UnguardedRun, before: Stored | null): Promise<void> {
    const { ledger, events } = this.#services;
    const { call, record, value } = run;
    const seen = { doubtful: false };
    const applied = await ledger.apply(before, (current) => {
      seen.doubtful = mayHaveHappened(current) && current?.holder !== record.holder;
      return this.#eventOf(run, current);
    });
    const known = applied.ok ? null : applied.stored?.record;
    const twice = known?.state === "confirmed" ? !this.#isSame(known, value) : seen.doubtful;
    if (record.state !== "failed" && twice)
      events.emit({ type: "duplicate_detected", action: call.definition.name, key: call.key, ...by(call) });
  }

  #isSame(known: LedgerRecord, value: unknown): boolean {
    return hasSameId(this.#services.payloads.load(known, "result").value, value);
  }

  #eventOf({ call, record, value }: UnguardedRun, current: LedgerRecord | null): Ran {
    const { payloads, providerIds } = this.#services;
    const holder = record.holder as string;
    const intent = intentOf(call, current, payloads);
    const of = { type: "ran-unguarded", intent, holder } as const;
    switch (record.state) {
      case "confirmed": {
        const isOurs = current?.holder === holder;
        const bound = { tenant: call.tenant, key: call.key, fence: (current?.fence ?? 0) + (isOurs ? 0 : 1) };
        const result = payloads.store(value, "result", DEFAULT_LIMITS.resultBytes, bound);
        return { ...of, end: { as: "done", result, providerId: providerIds.of(call.definition, value) } };
      }
      case "failed":
        return { ...of, end: { as: "failed", error: record.error ?? toStoredError(null), final: record.final } };
      default:
        return { ...of, end: { as: "unknown", why: record.why ?? "", error: record.error } };
    }
  }

  /** In a caller's transaction nothing can be written for it: what is not committed with it has to be there already. */
  requireWritten(key: string, where: string): void {
    if (!this.has(key)) return;
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `${where}: this process ran the intent while the store was down, and its record is not written yet. Roll back, and call again in a second.`,
      { key },
    );
  }

  /** False: the store is still down, or one of them is still running. */
  async flush(): Promise<boolean> {
    const [first, ...others] = this.#runs.keys();
    if (first === undefined) return true;
    try {
      // Alone: of those who ask a store that was down, one is let through.
      await this.write(first);
    } catch {
      return false;
    }
    await Promise.all(others.map((key) => this.write(key).catch(() => {})));
    return this.#runs.size === 0;
  }

  /** Writes what can be written, and says what could not be. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#runs.size === 0 || (await this.flush())) return;
    this.#services.warnings.warn(
      "UNGUARDED_NOT_WRITTEN",
      "",
      this.#runs.size === 1
        ? "1 intent was run while the store was down, and it is still down at close(): the ledger does not know of it. A repeat of it in another process runs again."
        : `${this.#runs.size} intents were run while the store was down, and it is still down at close(): the ledger does not know of them. A repeat of them in another process runs again.`,
    );
  }

  #arm(): void {
    if (this.#timer !== null) return;
    this.#timer = this.#services.clock.after(
      RETRY_MS,
      () => {
        this.#timer = null;
        void this.flush().then((all) => {
          if (!all) this.#arm();
        });
      },
      true,
    );
  }
}

function mayHaveHappened(record: LedgerRecord | null): boolean {
  return record?.state === "sent" || record?.state === "unknown";
}
