/** Damaged records that were met: each is an event once, and the first of them a warning. */
import type { DamagedRecord } from "../core/damaged-record.ts";
import type { Events, Warnings } from "./events.ts";

// A loop meets the same record at every pass; beyond this many, further ones are left to `doctor`.
const MAX_REMEMBERED = 1_000;

export class DamageReports {
  readonly #events: Events;
  readonly #warnings: Warnings;
  readonly #reported = new Set<string>();

  constructor(events: Events, warnings: Warnings) {
    this.#events = events;
    this.#warnings = warnings;
  }

  report({ key, message }: DamagedRecord): void {
    if (this.#reported.has(key) || this.#reported.size >= MAX_REMEMBERED) return;
    this.#reported.add(key);
    this.#events.emit({ type: "damaged", key, message });
    this.#warnings.warn("DAMAGED_RECORD", "", `${message} List all damaged records with: nevertwice doctor`);
  }
}
