/** How much time a doubt leaves: until a provider forgets the key, and until no earlier attempt can still arrive. */
import { elapsed, type Instant, type LedgerRecord } from "./record.ts";

/** The provider's window runs from the first time the key may have reached it. */
export function windowOver(record: LedgerRecord, windowMs: number, at: Instant): boolean {
  if (record.firstSentAt === null) return true;
  return elapsed(record.firstSentAt, record.firstSentMark, at).most >= windowMs;
}

/** How long until every earlier attempt has had time to arrive; 0: it has. */
export function quietInMs(record: LedgerRecord, quietForMs: number, at: Instant): number {
  if (record.doubtSince === null) return quietForMs;
  return Math.max(0, quietForMs - elapsed(record.doubtSince, record.doubtMark, at).least);
}

/** Whether a doubt that is held for a time only has been held for it. */
export function heldLongEnough(record: LedgerRecord, forMs: number, at: Instant): boolean {
  return quietInMs(record, forMs, at) === 0;
}
