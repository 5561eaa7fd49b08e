/**
 * What this process ran while the store was down. The same intent is not run again meanwhile, and the records are written
 * when the store is back. Kept in memory: a process that ends before that has told nobody.
 */
import { NevertwiceError } from "../core/errors.ts";
import { aliasTarget } from "../core/key/formerly.ts";
import type { LedgerRecord, Payload } from "../core/record.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { LedgerEvent } from "../core/transition.ts";
import { type Call, hasFormer } from "./call.ts";
import type { Clock, Timer } from "./clock.ts";
import { about, type Events, type Warnings } from "./events.ts";
import { aliasSwapsOf, follow, keysOf, type Located, locate } from "./formerly.ts";
import type { Applied, Ledger } from "./ledger.ts";
import { intentOf } from "./make-call.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";
import type { Untold } from "./pending-writes.ts";
import type { ProviderIds } from "./provider-ids.ts";
import { hasSameId } from "./same-effect.ts";
import { otherInputIfKnown } from "./same-input.ts";

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
const MOST_RESULT_CHARS = 4_096;
const TOO_LARGE: Payload = { omitted: "the ledger cannot be asked, and it is too large to be kept in memory" };
const RETRY_MS = 1_000;
const MOST_MOVES = 16;

export class UnguardedRuns {
  readonly #services: Services;
  /** By the key of its record. */
  readonly #runs = new Map<string, UnguardedRun>();
  /** What this process has settled in the ledger, for the time when the ledger cannot be asked. */
  readonly #settled = new Map<string, LedgerRecord>();
  /** The other keys of those intents, and the key of the record that each belongs to. */
  readonly #otherKeys = new Map<string, string>();
  #timer: Timer | null = null;

  constructor(services: Services) {
    this.#services = services;
  }

  get size(): number {
    return this.#runs.size;
  }

  has(key: string): boolean {
    return this.#runs.size > 0 && this.#get(key) !== undefined;
  }

  /** By any of the keys that the intent has. */
  of(call: Call): UnguardedRun | null {
    if (this.#runs.size === 0) return null;
    for (const { key } of keysOf(call)) {
      const run = this.#get(key);
      if (run !== undefined) return run;
    }
    return null;
  }

  /** What this process knows of an intent without asking the ledger. */
  recordOf(key: string): LedgerRecord | null {
    return this.#get(key)?.record ?? this.#settled.get(key) ?? null;
  }

  /** The same by any of the keys that the intent has. */
  knownOf(call: Call): LedgerRecord | null {
    for (const { key } of keysOf(call)) {
      const record = this.recordOf(key);
      if (record !== null) return record;
    }
    return null;
  }

  /** A run that is in the ledger. Without its input, and without a result that is large. */
  settled(record: LedgerRecord): void {
    this.#settled.delete(record.key);
    if (this.#settled.size >= MOST_RUNS) {
      const [oldest] = this.#settled.keys();
      if (oldest !== undefined) this.#settled.delete(oldest);
    }
    const result = sizeOf(record.result) > MOST_RESULT_CHARS ? TOO_LARGE : record.result;
    this.#settled.set(record.key, { ...record, input: null, draft: null, history: [], result });
  }

  #get(key: string): UnguardedRun | undefined {
    return this.#runs.get(key) ?? this.#runs.get(this.#otherKeys.get(key) ?? "");
  }

  #forget({ call, record }: UnguardedRun): void {
    this.#runs.delete(record.key);
    for (const { key } of keysOf(call)) if (this.#otherKeys.get(key) === record.key) this.#otherKeys.delete(key);
  }

  remember(run: UnguardedRun): void {
    const { key } = run.record;
    this.#runs.delete(key);
    if (this.#runs.size >= MOST_RUNS) this.#forgetOldest();
    this.#runs.set(key, run);
    for (const other of keysOf(run.call)) if (other.key !== key) this.#otherKeys.set(other.key, key);
    this.#arm();
  }

  #forgetOldest(): void {
    const [oldest] = this.#runs.values();
    if (oldest === undefined) return;
    this.#forget(oldest);
    this.#services.warnings.warn(
      "UNGUARDED_FORGOTTEN",
      oldest.call.definition.name,
      `more than ${MOST_RUNS} intents were run while the store is down. The oldest are forgotten: a repeat of them runs again, and the ledger will not know of them. Restore the store, or use whenStoreDown: "refuse".`,
    );
  }

  /** The same for the intent of a call, where this process has run it. */
  async writeOf(call: Call): Promise<void> {
    const run = this.of(call);
    if (run !== null) await this.write(run.record.key);
  }

  /** Throws where the store is still down. */
  async write(key: string): Promise<void> {
    const run = this.#get(key);
    // Still running: what is true about it is not known yet.
    if (run === undefined || run.record.state === "sent") return;
    const { ledger, untold } = this.#services;
    if (run.claimed) await untold.tick();
    if (run.claimed) await ledger.read(key);
    else await this.#writeRun(run);
    // Another attempt may have replaced it meanwhile: that one is written by itself.
    if (this.#runs.get(run.record.key) === run) this.#forget(run);
  }

  async #writeRun(run: UnguardedRun): Promise<void> {
    const { events, ledger } = this.#services;
    const { call, record, value } = run;
    const seen: { doubtful: boolean; differs: readonly string[] | null } = { doubtful: false, differs: null };
    const applied = await this.#apply(run, (current) => {
      seen.doubtful = mayHaveHappened(current) && current?.holder !== record.holder;
      const other = current === null ? null : otherInputIfKnown(call, current, ledger.instant());
      // What is known not to have happened is corrected by what was run.
      seen.differs = other === null || other.meets === "new-round" ? null : other.differs;
    });
    if (record.state === "failed") return;
    // What was on record was meant with another input, and is not going to be run.
    if (seen.differs !== null) events.emit({ type: "conflict", ...about(call), differs: seen.differs });
    if (record.state !== "confirmed") return;
    const known = applied.ok ? null : applied.stored?.record;
    const twice = known?.state === "confirmed" ? !this.#isSame(known, value) : seen.doubtful;
    if (twice) events.emit({ type: "duplicate_detected", ...about(call) });
  }

  /** To the one record of the intent, under whichever of its keys that is. */
  async #apply(run: UnguardedRun, look: (current: LedgerRecord | null) => void): Promise<Applied> {
    const { ledger } = this.#services;
    for (let move = 0; move < MOST_MOVES; move += 1) {
      const { call, stored } = await this.#locate(run.call);
      let moved = false;
      const applied = await ledger.apply(stored, (current) => {
        moved = aliasTarget(current, ledger.instant().now) !== null;
        if (moved) return null;
        look(current);
        return this.#eventOf({ ...run, call }, current);
      });
      if (!moved) return applied;
    }
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `${run.call.definition.name}: the records under its keys kept changing. What was run while the store was down is not written yet; it is tried again.`,
      { key: run.record.key },
    );
  }

  #locate(call: Call): Promise<Located> {
    const swaps = aliasSwapsOf(this.#services.ledger);
    if (hasFormer(call)) return locate(swaps, call);
    return follow(swaps, call, { key: call.key, action: call.recordedFor ?? call.definition.name });
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
  requireWritten(call: Call, where: string): void {
    if (this.of(call) === null) return;
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `${where}: this process ran the intent while the store was down, and its record is not written yet. Roll back, and call again in a second.`,
      { key: call.key },
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

function sizeOf(payload: Payload | null): number {
  if (payload === null || "omitted" in payload) return 0;
  return "json" in payload ? payload.json.length : payload.sealed.length;
}

function mayHaveHappened(record: LedgerRecord | null): boolean {
  return record?.state === "sent" || record?.state === "unknown";
}
