/**
 * What the table already holds of a record, so that a settle does not send it again: the input, the draft and the
 * fingerprint of a claim that this process wrote or read. An input of 200 KB would otherwise travel, and be stored anew,
 * at every heartbeat.
 *
 * A fact is about one revision of one key, and a write that relies on it names that revision: where the row has moved
 * on, the write conflicts. Facts live as long as the record's fingerprint, which a record hands on to the next.
 */
import type { Fingerprint, LedgerRecord } from "../core/record.ts";
import type { Put, Stored } from "../core/store.ts";
import { keepClass } from "./postgres-row.ts";

interface Held
  extends Pick<LedgerRecord, "key" | "input" | "draft" | "history" | "doubted" | "createdAt" | "keepMs" | "queued"> {
  readonly rev: number;
  readonly keepClass: number;
}

export class Lineage {
  readonly #held = new WeakMap<Fingerprint, Held>();

  keep({ record, version: rev }: Stored): Stored {
    const { key, input, draft, history, doubted, createdAt, keepMs, queued } = record;
    this.#held.set(record.fingerprint, {
      rev,
      key,
      input,
      draft,
      history,
      doubted,
      createdAt,
      keepMs,
      queued,
      keepClass: keepClass(record),
    });
    return { record, version: rev };
  }

  /** The row has all of the record that a plain settle leaves alone. */
  holds({ record, expected }: Put): boolean {
    const held = this.#held.get(record.fingerprint);
    return (
      held !== undefined &&
      held.rev === expected &&
      held.key === record.key &&
      held.input === record.input &&
      held.draft === record.draft &&
      held.history === record.history &&
      held.doubted === record.doubted &&
      held.createdAt === record.createdAt &&
      held.keepMs === record.keepMs &&
      held.queued === record.queued &&
      held.keepClass === keepClass(record)
    );
  }
}
