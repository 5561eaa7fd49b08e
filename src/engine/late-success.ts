/** A success that is told after its attempt was given up: evidence. What it says of the record is core's rule. */
import type { Stored } from "../core/store.ts";
import type { LedgerEvent } from "../core/transition.ts";
import { isAnother } from "./delivered.ts";
import type { Events } from "./events.ts";
import type { Applied, Ledger } from "./ledger.ts";
import type { Payloads } from "./payloads.ts";
import { sameEffect } from "./same-effect.ts";

interface Services {
  readonly ledger: Ledger;
  readonly events: Events;
  readonly payloads: Payloads;
}

type Confirm = Extract<LedgerEvent, { readonly type: "confirm" }>;

/** `about`: what its events begin with. */
export async function tellLate(
  { ledger, events, payloads }: Services,
  stored: Stored | null,
  event: Confirm,
  value: unknown,
  about: { readonly action: string; readonly key: string; readonly agent?: string },
): Promise<Applied> {
  const applied = await ledger.apply(stored, event);
  const isSecond = applied.ok
    ? applied.stored.record.state !== "confirmed"
    : isAnother(applied) && !sameEffect(payloads.load(applied.stored.record, "result").value, value);
  if (isSecond) events.emit({ type: "duplicate_detected", ...about });
  else if (applied.ok) events.emit({ type: "settled", ...about, as: "done", how: "late-success" });
  return applied;
}
