/** What people and programs do to the ledger by key, without the action's code: settle a doubt, bring back a dead letter. */
import { entryLabel, needsResult } from "../core/entry-name.ts";
import { NevertwiceError } from "../core/errors.ts";
import { NO_RESULT, RESULT_NOT_GIVEN } from "../core/kept-result.ts";
import { isUnplaced } from "../core/order.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import type { LedgerRecord, Payload } from "../core/record.ts";
import type { Refusal } from "../core/refusal.ts";
import { unstorableIn } from "../core/storable-text.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import type { Engine } from "./engine.ts";
import { by as named } from "./events.ts";
import { tellLate } from "./late-success.ts";
import type { Applied } from "./ledger.ts";
import { place } from "./order-place.ts";
import { type Bound, DEFAULT_LIMITS, type Payloads } from "./payloads.ts";
import { swapsOf } from "./turn.ts";

export interface Resolution<R> {
  /** done: it happened · not-done: it did not, and may be claimed again · failed: it did not, and is not to be tried again */
  readonly as: "done" | "not-done" | "failed";
  /**
   * done: what a repeat gets. Left out, it is not kept: a repeat runs nothing, and `action()` throws RESULT_UNAVAILABLE. An action
   * that returns nothing is resolved with `result: undefined`.
   */
  readonly result?: R;
  readonly by: string;
  readonly reason: string;
}

/** In a resolution as done: the attempt with this fence tells it itself, after its caller had given it up. */
export const OF_FENCE = Symbol.for("nevertwice.of-fence");

export interface Signature {
  readonly by: string;
  readonly reason: string;
}

/** A record by its key, as a tenant asks for it ("": whosever it is). */
export interface Target {
  readonly key: string;
  readonly tenant: string;
}

/** `call`: it was asked for by its input. */
export interface LookedFor extends Target {
  readonly call?: Call;
}

/** What is looked up by key comes as { key }, with the key that an outcome, an error or a record shows. */
export function keyIn(target: unknown, where: string): string {
  const key = typeof target === "object" && target !== null ? (target as { key?: unknown }).key : undefined;
  if (typeof key === "string" && key !== "") return key;
  const shown =
    typeof target === "string"
      ? JSON.stringify(target)
      : key === undefined
        ? "no object with a key"
        : `{ key: ${JSON.stringify(key) ?? String(key)} }`;
  const byInput = where === "status" || where === "resolve" ? `action.${where}(input)` : "await action.keyOf(input)";
  throw new NevertwiceError(
    "INVALID_KEY",
    `${where}: its target is ${shown}. Give { key: "nt1_…" }, with a key as outcomes, errors and \`nevertwice ls\` show it. By its input, a record is found by the action: ${byInput}.`,
  );
}

export const SETTLED_AS = { done: "confirmed", "not-done": "pending", failed: "failed" } as const;

export function resolveDoubt(
  engine: Engine,
  target: Target,
  resolution: Resolution<unknown>,
): Promise<Outcome<unknown> | Absent> {
  return engine.during(() => resolveStored(engine, target, resolution));
}

async function resolveStored(
  engine: Engine,
  target: Target,
  resolution: Resolution<unknown>,
): Promise<Outcome<unknown> | Absent> {
  checkResolution(resolution, "resolve", target.key);
  const stored = await existing(engine, target);
  const { key } = stored.record;
  const { as } = resolution;
  const { [OF_FENCE]: fence } = resolution as { readonly [OF_FENCE]?: number };
  const applied =
    fence === undefined
      ? await settleDoubt(engine, stored, resolution)
      : await toldLate(engine, stored, fence, resolution.result);
  if (applied.ok) return engine.describe(applied.stored.record);
  // Resolved the same way a moment ago: a double click, not a mistake.
  if (applied.stored?.record.state === SETTLED_AS[as]) return engine.describe(applied.stored.record);
  throw refusalError(applied.refusal, applied.stored, key, "resolve");
}

function toldLate(engine: Engine, stored: Stored, fence: number, value: unknown): Promise<Applied> {
  const { payloads, providerIds } = engine.services;
  const { key, tenant, action } = stored.record;
  const result = payloads.store(value, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
  const providerId = providerIds.ofAction(action, value);
  const event = { type: "confirm", hold: { fence, holder: "" }, result, providerId } as const;
  return tellLate(engine.services, stored, event, value, { action, key, ...named(stored.record) });
}

/** `key`: of the record it is about; absent where it is about many. */
export function checkResolution(resolution: Resolution<unknown>, where: string, key?: string): void {
  checkSignature(resolution, where);
  if (Object.hasOwn(SETTLED_AS, resolution.as)) return;
  throw new NevertwiceError(
    "INVALID_INPUT",
    `${where}: as is ${JSON.stringify(resolution.as)}; it takes "done", "not-done" or "failed".`,
    key === undefined ? {} : { key },
  );
}

/** `still`: whether the record, as it stands when it is written, is one that the decision is about. */
export async function settleDoubt(
  engine: Engine,
  stored: Stored,
  resolution: Resolution<unknown>,
  still: (current: LedgerRecord) => boolean = () => true,
): Promise<Applied> {
  const { ledger, payloads, events, providerIds } = engine.services;
  const { as, by, reason } = resolution;
  // Not the key that was asked for where that is an alias: results are sealed for their record.
  const { key, tenant, fence, action } = stored.record;
  if (as === "done" && !Object.hasOwn(resolution, "result") && needsResult(action)) {
    throw new NevertwiceError(
      "INVALID_INPUT",
      `resolve: ${entryLabel(action)} (${key}) goes on with what the step returned, and would end there without it. Give result, or result: undefined if the step returns nothing. Nothing was changed.`,
      { key },
    );
  }
  const event = {
    type: "resolve",
    as,
    result: as === "done" ? resultOf(resolution, payloads, { tenant, key, fence }) : null,
    providerId: as === "done" ? providerIds.ofAction(action, resolution.result) : null,
    by,
    reason,
  } as const;
  const applied = await ledger.apply(stored, (current) => (current !== null && still(current) ? event : null));
  if (applied.ok) events.emit({ type: "settled", action, key, ...named(stored.record), as, how: "resolve" });
  return applied;
}

function resultOf(resolution: Resolution<unknown>, payloads: Payloads, bound: Bound): Payload | null {
  if (!Object.hasOwn(resolution, "result")) return RESULT_NOT_GIVEN.resolve;
  const { result } = resolution;
  return result === undefined ? NO_RESULT : payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, bound);
}

/** A failed record may be tried again: the next call of its action, or a worker, claims it. */
export function retryFailed(engine: Engine, target: Target, signature: Signature): Promise<Outcome<unknown> | Absent> {
  return engine.during(() => retryStored(engine, target, signature));
}

async function retryStored(engine: Engine, target: Target, signature: Signature): Promise<Outcome<unknown> | Absent> {
  checkSignature(signature, "retry");
  const { key } = target;
  const stored = await existing(engine, target);
  const { ledger } = engine.services;
  const applied = await ledger.apply(stored, { type: "retry", ...signature });
  if (applied.ok) {
    // At the end of its order, before anything that is enqueued after this call.
    if (isUnplaced(applied.stored.record)) await place(swapsOf(ledger), applied.stored);
    return engine.describe(applied.stored.record);
  }
  throw refusalError(applied.refusal, applied.stored, key, "retry");
}

async function existing(engine: Engine, { key, tenant }: Target): Promise<Stored> {
  const stored = await engine.find(key, tenant);
  if (stored !== null) return stored;
  throw new NevertwiceError(
    "INVALID_KEY",
    `there is no record with the key ${key} in this ledger. List what there is with: nevertwice ls`,
    { key },
  );
}

function refusalError(
  refusal: Refusal,
  stored: Stored | null,
  key: string,
  what: "resolve" | "retry",
): NevertwiceError {
  const state = stored?.record.state ?? "gone";
  if (refusal === "leased") {
    return new NevertwiceError(
      "IN_FLIGHT",
      `${what}: an attempt is still under way (${state}). Wait until its lease is over, then look again: nevertwice show ${key}`,
      { key },
    );
  }
  const wanted = what === "resolve" ? "Only a doubt can be resolved" : "Only a failed record can be retried";
  return new NevertwiceError(
    "INVALID_INPUT",
    `${what}: the record is ${state}. ${wanted}; there is nothing to do. See: nevertwice show ${key}`,
    { key },
  );
}

/** Not given at all, it is missing both. */
export function checkSignature(signature: { by?: unknown; reason?: unknown } | null | undefined, where: string): void {
  for (const field of ["by", "reason"] as const) {
    const value = signature?.[field];
    const unstorable = typeof value === "string" ? unstorableIn(value) : null;
    if (unstorable !== null)
      throw new NevertwiceError("INVALID_INPUT", `${where}: ${field} cannot be kept: ${unstorable}. Leave it out.`);
    if (typeof value === "string" && value.trim() !== "") continue;
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${where}: ${field} is missing. It is kept in the record's history: say who decides (a person or a program), and why.`,
    );
  }
}
