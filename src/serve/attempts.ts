/**
 * Attempts that are made outside of this process, as plain operations on the ledger: claim, heartbeat, sent, settle.
 * What may follow what is decided by core's transitions and plan; nothing is kept here between two operations.
 */
import { createHash } from "node:crypto";
import type { Duration } from "../core/duration.ts";
import { durationMs } from "../core/duration.ts";
import { ownName } from "../core/entry-name.ts";
import { configError, NevertwiceError } from "../core/errors.ts";
import { notKeptByCaller } from "../core/kept-result.ts";
import { providerKey } from "../core/key/provider-key.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { policyWarnings, resolvePolicy } from "../core/policy.ts";
import { type LedgerRecord, leaseAlive, type StoredError } from "../core/record.ts";
import { givenUp, nextTry, type RetryOptions } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import { toStoredError } from "../core/stored-error.ts";
import type { LedgerEvent } from "../core/transition.ts";
import type { ActionServices } from "../engine/action.ts";
import type { CallOptions } from "../engine/call.ts";
import { type Definition, defineAction } from "../engine/definition.ts";
import { by } from "../engine/events.ts";
import { warnOfKeyParts, warnOfNearKeys, warnOfShortKeep } from "../engine/key-warnings.ts";
import { makeCall } from "../engine/make-call.ts";
import { DEFAULT_LIMITS } from "../engine/payloads.ts";
import { warnOfLostResult } from "../engine/result-warnings.ts";
import { sameEffect } from "../engine/same-effect.ts";
import { type AttemptName, type AttemptTerms, attemptOf, tokenOf } from "./attempt-token.ts";

/** What names an intent, as `nt.once(action, parts)` does. */
export interface IntentRequest {
  readonly action: string;
  readonly parts: readonly unknown[];
  readonly version?: number;
  readonly scope?: string;
}

export interface ClaimRequest extends IntentRequest {
  readonly input?: unknown;
  readonly free?: readonly string[];
  readonly lease?: Duration;
  readonly keep?: Duration | "forever";
  readonly doubt?: "hold" | "retry" | { readonly resendWithin: Duration };
  readonly retry?: RetryOptions;
  readonly mark?: "auto" | "manual";
  readonly wait?: Duration;
  /** A random id of the caller's for this one claim: a repeat after a lost reply gets the same attempt. */
  readonly request?: string;
  /** Who claims it. */
  readonly agent?: string;
}

export interface ClaimedAttempt {
  readonly status: "claimed";
  readonly key: string;
  readonly action: string;
  readonly attempt: number;
  readonly fence: number;
  readonly token: string;
  readonly leaseMs: number;
  readonly state: "claimed" | "sent";
  /** For the provider's idempotency key. */
  readonly providerKey: string;
  /** This claim was handed out before: its reply was lost. */
  readonly again?: true;
  /** An earlier attempt may have happened. Send `input`, with `providerKey`. */
  readonly resend?: true;
  readonly input?: unknown;
}

export interface SettleRequest {
  readonly token: string;
  readonly as: SettleAs;
  readonly result?: unknown;
  /** It has a result that is not kept: why. */
  readonly resultOmitted?: string;
  readonly error?: { readonly name?: string; readonly message: string; readonly code?: string };
  readonly retryAfter?: Duration;
}

export type Settled = (Outcome<unknown> | Absent) & { readonly warning?: string };

const OF_ANOTHER_INPUT =
  "it happened with the input before its correction, and is noted in the history of the record. The answer is about the corrected input, which goes on: the effect may happen twice";

/** done: it happened · not-sent: nothing left, try again · not-begun: as before, and not counted as a try · refused: it did not happen, may be corrected · rejected: refused for good · unknown: it may have happened. */
export type SettleAs = "done" | "not-sent" | "not-begun" | "refused" | "rejected" | "unknown";

/** The caller of an operation, as far as it matters. */
export interface Caller {
  /** The answer cannot reach it any more. */
  gone(): boolean;
  /** Aborted when waiting makes no sense any more: the caller is gone, or the service ends. */
  readonly signal: AbortSignal;
}

const NO_WAIT = 0;

export class Attempts {
  readonly #services: ActionServices;

  constructor(services: ActionServices) {
    this.#services = services;
  }

  /** The attempt that the caller now has to make, or what is true of the intent instead. */
  async claim(request: ClaimRequest, caller: Caller): Promise<ClaimedAttempt | Outcome<unknown>> {
    const { engine, defaults, used } = this.#services;
    const { ledger, warnings, newHolder } = engine.services;
    used();
    requireFreeName(request.action, "claim");
    const definition = definitionOf(request);
    const { input } = request;
    const options: CallOptions = {
      ...identityOf(request),
      ...(request.agent !== undefined && { agent: request.agent }),
      wait: request.wait ?? NO_WAIT,
    };
    const call = makeCall(definition, input, input, options, defaults);
    warnOfKeyParts(definition, input, ledger, warnings);
    warnOfNearKeys(call, warnings);
    warnOfShortKeep(call, warnings);
    for (const { code, message } of policyWarnings(definition.policy, definition.name))
      warnings.warn(code, definition.name, message);
    const claims: ClaimedAttempt[] = [];
    const outcome = await engine.claim({
      ...call,
      outside: {
        holder: request.request === undefined ? newHolder() : holderOf(request.request),
        mayAskAgain: request.request !== undefined,
        gone: () => caller.signal.aborted,
        claimed: ({ stored, input: toSend, again }) => {
          const { leaseMs } = definition.policy;
          claims.push(attemptIn(stored.record, { leaseMs, retry: request.retry }, { again, input: toSend }));
        },
      },
    });
    const [claimed] = claims;
    if (claimed !== undefined && caller.gone() && request.request === undefined) await this.#takeBack(claimed);
    return claimed ?? outcome;
  }

  /**
   * The caller has left before it was answered: nothing was begun. Not where it named its request: it may have asked again
   * meanwhile, and have this very attempt.
   */
  async #takeBack({ token }: ClaimedAttempt): Promise<void> {
    // A store that does not answer leaves the doubt, where people see it.
    await this.settle({ token, as: "not-begun" }).catch(() => {});
  }

  /** The lease is counted from now on. */
  async heartbeat(token: string): Promise<{ readonly leaseMs: number }> {
    const attempt = attemptOf(token);
    const stored = await this.#held(attempt);
    const { leaseMs } = attempt.terms;
    await this.#permitted(stored, { type: "heartbeat", hold: attempt.hold, leaseMs });
    return { leaseMs };
  }

  /** The send mark, right before the effect. A mark whose reply was lost is repeated as a heartbeat. */
  async sent(token: string): Promise<{ readonly leaseMs: number }> {
    const attempt = attemptOf(token);
    const stored = await this.#held(attempt);
    const { hold, terms } = attempt;
    const { leaseMs } = terms;
    await this.#permitted(
      stored,
      stored.record.state === "sent"
        ? { type: "heartbeat", hold, leaseMs }
        : { type: "mark", hold, leaseMs, timeoutMs: leaseMs, draft: null },
    );
    return { leaseMs };
  }

  /** What became of it. Success is welcome late; everything else needs the lease. The same settlement twice is answered twice. */
  settle(request: SettleRequest): Promise<Settled> {
    checkSettlement(request);
    const attempt = attemptOf(request.token);
    return this.#services.engine.during(() =>
      request.as === "done" ? this.#done(attempt, request) : this.#notDone(attempt, request),
    );
  }

  async status(target: IntentRequest | { readonly key: string }): Promise<Outcome<unknown> | Absent> {
    const { engine, defaults } = this.#services;
    const key = "key" in target ? target.key : this.keyOf(target);
    return engine.status(key, defaults.confinedTo);
  }

  keyOf(request: IntentRequest): string {
    const definition = definitionOf(request);
    return makeCall(definition, undefined, undefined, identityOf(request), this.#services.defaults).key;
  }

  async #done(attempt: AttemptName, { result, resultOmitted }: SettleRequest): Promise<Settled> {
    const { engine } = this.#services;
    const { ledger, payloads, providerIds, events, warnings } = engine.services;
    const { hold, terms } = attempt;
    const stored = await this.#find(attempt);
    // Not the attempt's where an alias took the place of its record: results are sealed for the record they are in.
    const { key, tenant, action } = stored.record;
    const payload =
      resultOmitted === undefined
        ? payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence: hold.fence })
        : notKeptByCaller(resultOmitted);
    if (payload !== null && "omitted" in payload) warnOfLostResult(warnings, action, payload.omitted);
    const applied = await ledger.apply(stored, {
      type: "confirm",
      hold,
      result: payload,
      providerId: providerIds.ofAction(action, result),
      ...(terms.agent !== undefined && { agent: terms.agent }),
    });
    if (applied.stored === null) throw gone(key);
    const { record } = applied.stored;
    if (!applied.ok && record.state !== "confirmed") throw lost(record, "was never handed out by this ledger");
    if (applied.ok && record.state !== "confirmed") {
      events.emit({ type: "duplicate_detected", ...of(record) });
      return { ...(engine.describe(record) as Outcome<unknown>), warning: OF_ANOTHER_INPUT };
    }
    const late = record.history.at(-1);
    const how = late?.to === "confirmed" ? late.event : null;
    if (applied.ok && how === "late-success")
      events.emit({ type: "settled", ...of(record), as: "done", how: "late-success" });
    else if (applied.ok) events.emit({ type: "executed", ...of(record), attempt: record.attempt, ms: tookMs(record) });
    const sameResult = sameEffect(payloads.load(record, "result").value, result);
    if (!applied.ok && !sameResult) events.emit({ type: "duplicate_detected", ...of(record) });
    const outcome = engine.describe(record);
    // Its own settlement again: the first answer was lost.
    const own = isHeldBy(record, attempt) && (how === null || how === "late-success") && sameResult;
    return outcome.status === "done" && (applied.ok || own) ? { ...outcome, replayed: false } : outcome;
  }

  async #notDone(attempt: AttemptName, request: SettleRequest): Promise<Outcome<unknown> | Absent> {
    const { engine } = this.#services;
    const { ledger, events } = engine.services;
    const stored = await this.#find(attempt);
    if (isSettledSo(stored.record, attempt, request.as)) return engine.describe(stored.record);
    const lapsed = await this.#lapsed(stored, attempt);
    // It is in doubt by now, as its holder says.
    if (lapsed !== null && isSettledSo(lapsed.record, attempt, request.as)) return engine.describe(lapsed.record);
    if (lapsed !== null) throw lost(lapsed.record, "has outlived its lease");
    let held = stored;
    if (request.as === "unknown" && held.record.state === "claimed") held = await this.#markedLate(held, attempt);
    const applied = await ledger.apply(held, this.#eventOf(held.record, attempt, request));
    if (!applied.ok) {
      if (applied.stored !== null && isSettledSo(applied.stored.record, attempt, request.as))
        return engine.describe(applied.stored.record);
      throw applied.stored === null ? gone(attempt.key) : lost(applied.stored.record, "is no longer yours");
    }
    const { record } = applied.stored;
    const about = { ...of(record), attempt: record.attempt };
    if (record.state === "unknown") events.emit({ type: "unknown", ...about, why: record.why ?? "" });
    else if (request.as !== "not-begun") events.emit({ type: "failed", ...about, final: record.final });
    return engine.describe(record);
  }

  #eventOf(record: LedgerRecord, { hold, terms }: AttemptName, request: SettleRequest): LedgerEvent {
    const { ledger, random } = this.#services.engine.services;
    const { now } = ledger.instant();
    const taker = terms.agent === undefined ? {} : { agent: terms.agent };
    const after = request.retryAfter === undefined ? null : durationMs(request.retryAfter, "settle: retryAfter");
    switch (request.as) {
      case "unknown": {
        const error = request.error === undefined ? null : storedError(request);
        const why = error?.message ?? "its holder reported that it may have happened";
        return { type: "doubt", hold, why, error };
      }
      case "not-begun":
        return { type: "give-back", hold, dueAt: now + (after ?? 0) };
      case "not-sent": {
        const { leaseMs: lease, retry } = terms;
        const policy = resolvePolicy({ lease, ...(retry !== undefined && { retry }) }, "settle");
        const { at: retryAt, because, ...end } = nextTry(policy, record, { now, retryAfterMs: after, random });
        const error = givenUp(storedError(request), because);
        return { type: "not-sent", hold, error, retryAt, final: false, ...end, ...taker };
      }
      default: {
        const final = request.as === "rejected";
        return { type: "not-sent", hold, error: storedError(request), retryAt: null, final, ...taker };
      }
    }
  }

  /** Reported as unknown before any send mark: it may have been sent without one. */
  async #markedLate(stored: Stored, { hold, terms }: AttemptName): Promise<Stored> {
    const { leaseMs } = terms;
    return this.#permitted(stored, { type: "mark", hold, leaseMs, timeoutMs: leaseMs, draft: null });
  }

  async #permitted(stored: Stored, event: LedgerEvent): Promise<Stored> {
    const { engine } = this.#services;
    const { ledger, events } = engine.services;
    const applied = await engine.during(() => ledger.apply(stored, event));
    if (applied.ok) return applied.stored;
    events.emit({ type: "lease_lost", ...of(stored.record), attempt: stored.record.attempt });
    throw applied.stored === null ? gone(stored.record.key) : lost(applied.stored.record, "is no longer yours");
  }

  async #held(attempt: AttemptName): Promise<Stored> {
    return this.#whileLeased(await this.#find(attempt), attempt);
  }

  async #whileLeased(stored: Stored, attempt: AttemptName): Promise<Stored> {
    const lapsed = await this.#lapsed(stored, attempt);
    if (lapsed === null) return stored;
    throw lost(lapsed.record, "has outlived its lease");
  }

  /** A lease that is over makes the doubt visible at once, and gives no permission any more. Null: it is alive. */
  async #lapsed(stored: Stored, attempt: AttemptName): Promise<Stored | null> {
    const { ledger, events } = this.#services.engine.services;
    const { record } = stored;
    const isHeld = isHeldBy(record, attempt) && (record.state === "claimed" || record.state === "sent");
    if (!isHeld) throw lost(record, "is no longer yours");
    if (leaseAlive(record, ledger.instant())) return null;
    events.emit({ type: "lease_lost", ...of(record), attempt: record.attempt });
    const applied = record.state === "sent" ? await ledger.apply(stored, { type: "lapse" }) : null;
    if (applied?.ok) {
      const { attempt: number, why } = applied.stored.record;
      events.emit({ type: "unknown", ...of(applied.stored.record), attempt: number, why: why ?? "" });
    }
    return applied?.stored ?? stored;
  }

  async #find({ key }: AttemptName): Promise<Stored> {
    const { engine, defaults } = this.#services;
    engine.requireOpen();
    const stored = await engine.find(key, defaults.confinedTo ?? "");
    if (stored === null) throw gone(key);
    return stored;
  }
}

export function definitionOf(request: IntentRequest & Partial<ClaimRequest>): Definition {
  const { action, parts, free, lease, keep, doubt, retry, mark } = request;
  return defineAction(action, {
    key: () => parts,
    run: () => {
      throw configError(`${action}: it is run by the program that claims it, not here.`);
    },
    ...(free !== undefined && { free: free as never }),
    ...(lease !== undefined && { lease }),
    ...(keep !== undefined && { keep }),
    ...(doubt !== undefined && { doubt }),
    ...(retry !== undefined && { retry }),
    ...(mark !== undefined && { mark }),
  });
}

/** Records under the ledger's own names are written by runs, sequences and jobs alone. */
export function requireFreeName(action: string, where: string): void {
  const why = ownName(action);
  if (why !== null) throw invalid(`${where}: ${JSON.stringify(action)}: ${why}. Nothing was changed.`);
}

export function identityOf({ version, scope }: IntentRequest): CallOptions {
  return { ...(version !== undefined && { version }), ...(scope !== undefined && { scope }) };
}

/** The same for every copy of one request, and nothing that could be taken for a holder made here. */
export function holderOf(request: string): string {
  return `request.${createHash("sha256").update(request).digest("base64url").slice(0, 32)}`;
}

export function attemptIn(
  record: LedgerRecord,
  terms: AttemptTerms,
  { again, input }: { readonly again: boolean; readonly input: unknown },
): ClaimedAttempt {
  const { key, action, attempt, fence, state, doubted } = record;
  return {
    status: "claimed",
    key,
    action,
    attempt,
    fence,
    token: tokenOf(record, terms),
    leaseMs: terms.leaseMs,
    state: state as "claimed" | "sent",
    providerKey: providerKey(key),
    ...(again && { again }),
    ...(doubted && { resend: true, input: input ?? null }),
  };
}

function checkSettlement({ as, result, resultOmitted, error, retryAfter }: SettleRequest): void {
  if (result !== undefined && resultOmitted !== undefined)
    throw invalid("settle: give result, or resultOmitted where it is not kept; not both.");
  if (as !== "done" && (result !== undefined || resultOmitted !== undefined))
    throw invalid(`settle: result goes with as: "done". What did not happen, or may not have, has no result.`);
  if (as === "done" && error !== undefined)
    throw invalid(`settle: error does not go with as: "done". Leave it out, or say what did not happen.`);
  if (as !== "not-sent" && as !== "not-begun" && retryAfter !== undefined)
    throw invalid(`settle: retryAfter goes with as: "not-sent" or "not-begun"; nothing else is tried again by itself.`);
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("INVALID_INPUT", message);
}

function storedError({ as, error }: SettleRequest): StoredError {
  return toStoredError({ name: "Error", message: `settled as ${as}; no error was given`, ...error });
}

/** Which record an event is about. */
function of(record: LedgerRecord) {
  return { action: record.action, key: record.key, ...by(record) };
}

function tookMs({ lastSentAt, updatedAt }: LedgerRecord): number {
  return lastSentAt === null ? 0 : Math.max(0, updatedAt - lastSentAt);
}

function isHeldBy({ fence, holder }: LedgerRecord, { hold }: AttemptName): boolean {
  return fence === hold.fence && holder === hold.holder;
}

const SETTLED_BY = {
  "not-sent": ["not-sent"],
  refused: ["not-sent"],
  rejected: ["rejected"],
  // A lapse says the same of it.
  unknown: ["doubt", "lapse"],
} as const;

/** This very settlement was written before, and its answer was lost. */
function isSettledSo(record: LedgerRecord, attempt: AttemptName, as: SettleAs): boolean {
  const { state, history } = record;
  if (!isHeldBy(record, attempt) || state === "claimed" || state === "sent" || as === "done") return false;
  // Nobody has claimed it since.
  if (as === "not-begun") return state === "pending";
  const last = history.at(-1);
  const events: readonly string[] = SETTLED_BY[as];
  if (last?.attempt !== record.attempt || !events.includes(last.event)) return false;
  // "refused" is not tried again by itself, "not-sent" is while there are tries left.
  return as !== "refused" || state !== "pending";
}

function gone(key: string): NevertwiceError {
  return new NevertwiceError(
    "LEASE_LOST",
    `there is no record with the key ${key} for this attempt: it was settled by others and removed after its keep, or this is another ledger or another tenant's. Nothing was changed. Make no further effect for it; ask for its status.`,
    { key },
  );
}

function lost(record: LedgerRecord, what: string): NevertwiceError {
  const { key, state } = record;
  return new NevertwiceError(
    "LEASE_LOST",
    `this attempt ${what} (the record is ${state} now), so that nothing was changed. If the effect happened, settle it as "done": that is accepted late. Otherwise make no effect for it; look with: nevertwice show ${key}`,
    { key },
  );
}
