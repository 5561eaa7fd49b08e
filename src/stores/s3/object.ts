/**
 * A record as an object and back. Hosts share no steady clock, so a lease is stored as a length besides its end: who
 * reads it on another host counts it from the object's age, which the server tells by its own clock, and from then on by
 * their own monotonic one. No two clocks are ever compared.
 */
import { damagedRecord, newerRecord } from "../../core/damaged-record.ts";
import type { Instant, LedgerRecord } from "../../core/record.ts";
import { hexSum } from "../shared/checksum.ts";
import { completed, type Known } from "../shared/codec.ts";

export type S3Body =
  | {
      readonly kind: "record";
      readonly version: number;
      readonly record: LedgerRecord;
      readonly leaseMs: number | null;
    }
  /** Swept: the name is free again, but only for who has seen this very object. */
  | { readonly kind: "gone"; readonly version: number };

export function encodeBody(body: S3Body): string {
  const { version } = body;
  const inner = JSON.stringify(
    body.kind === "gone"
      ? { version, gone: true }
      : { version, ...(body.leaseMs !== null && { leaseMs: body.leaseMs }), record: body.record },
  );
  return `{"nevertwice":1,"crc":"${hexSum(inner)}","entry":${inner}}`;
}

const FORM = /^\{"nevertwice":(\d+),"crc":"([0-9a-f]{8})","entry":(.*)\}$/s;

export function decodeBody(text: string, key: string, where: string): S3Body {
  const [, format, crc, inner = ""] = FORM.exec(text) ?? [];
  if (format !== undefined && format !== "1")
    throw newerRecord(key, `the object ${where} was written by a newer release (format ${format}). Update nevertwice.`);
  if (crc !== hexSum(inner))
    throw damagedRecord({
      key,
      where,
      what: "its object does not match its checksum. An earlier version of it may do",
    });
  const entry = JSON.parse(inner) as { version: number; gone?: true; leaseMs?: number; record: Known };
  if (entry.gone === true) return { kind: "gone", version: entry.version };
  return { kind: "record", version: entry.version, record: completed(entry.record), leaseMs: entry.leaseMs ?? null };
}

/** How long the lease has left as it is written; null: none, or not of this process's clock. */
export function leaseLeft(record: LedgerRecord, at: Instant): number | null {
  if (record.lease === null || record.lease.epoch !== at.epoch) return null;
  return Math.max(0, Math.ceil(record.lease.until - at.steady));
}

/** A lease of another process, on our clock: from now on, minus what the object's age has used up. */
export function leaseHere(body: S3Body & { kind: "record" }, ageMs: number, at: Instant): LedgerRecord {
  const { record, leaseMs } = body;
  if (record.lease === null || leaseMs === null || record.lease.epoch === at.epoch) return record;
  return { ...record, lease: { until: at.steady + leaseMs - ageMs, epoch: at.epoch } };
}
