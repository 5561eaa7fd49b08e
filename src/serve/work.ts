/** Queued work for those who run it outside of this process: what a worker would begin, handed out as attempts. */
import { checkAgent } from "../core/agent-name.ts";
import { isOfAllRecords } from "../core/damaged-record.ts";
import { type Duration, durationMs } from "../core/duration.ts";
import { NevertwiceError } from "../core/errors.ts";
import { nextStep } from "../core/plan.ts";
import { type Policy, resolvePolicy } from "../core/policy.ts";
import { type LedgerRecord, leaseAlive, type State } from "../core/record.ts";
import type { RetryOptions } from "../core/retry.ts";
import type { Stored } from "../core/store.ts";
import type { ActionServices } from "../engine/action.ts";
import { giveBack, holdOf, leasedTurn, leaveToOthers, parkLeased, staleSince } from "../engine/leased-record.ts";
import { printOf } from "../engine/make-call.ts";
import { isInputMissing, missingInput } from "../engine/missing-input.ts";
import { onlyOf } from "../engine/tenancy.ts";
import { lookAgainAt, swapsOf, turnOf } from "../engine/turn.ts";
import { attemptIn, type Caller, type ClaimedAttempt, type ClaimRequest, holderOf } from "./attempts.ts";
import { WaitingTakes } from "./waiting-takes.ts";

export interface TakeRequest {
  readonly actions: readonly string[];
  readonly limit?: number;
  readonly lease?: Duration;
  readonly doubt?: ClaimRequest["doubt"];
  readonly retry?: RetryOptions;
  readonly mark?: "auto" | "manual";
  readonly wait?: Duration;
  readonly request?: string;
  /** Who takes it. */
  readonly agent?: string;
}

// Work that turns out to be stale, unreadable or not the first of its order, before it is said that there is none.
const MOST_PASSED_OVER = 100;
const PAGE = 200;
const MOST_PAGES = 10;

export class Work {
  readonly #services: ActionServices;
  readonly #waiting = new WaitingTakes();

  constructor(services: ActionServices) {
    this.#services = services;
  }

  /** What is due, up to `limit`; empty where nothing is, not within `wait` either. */
  async take(request: TakeRequest, caller: Caller): Promise<readonly ClaimedAttempt[]> {
    const { engine, used } = this.#services;
    const { clock, ledger, newHolder, underWay } = engine.services;
    used();
    const taking = this.#takingOf(request, request.request === undefined ? newHolder() : holderOf(request.request));
    const admission = ledger.admits(taking.policy.doubt.kind);
    if (admission !== null) await admission;
    if (request.request !== undefined) {
      const before = await engine.during(() => this.#takenBefore(taking));
      if (before.length > 0) return before;
    }
    const until = clock.monotonic() + durationMs(request.wait ?? 0, "take: wait");
    const look = () => engine.during(() => this.#takeNow(taking, caller));
    const leftMs = () => until - clock.monotonic();
    const { signal } = caller;
    let taken = signal.aborted ? [] : await look();
    if (taken.length === 0 && leftMs() > 0 && !signal.aborted && !underWay.closed) {
      const { actions, tenant, policy } = taking;
      const line = JSON.stringify([[...actions].sort(), tenant ?? null, policy.doubt]);
      taken = await this.#waiting.wait(engine.services, { actions, tenant, line }, { leftMs, look, signal });
    }
    return taken.map(({ attempt }) => attempt);
  }

  #takingOf(given: TakeRequest, holder: string): Taking {
    const { actions, limit = 1, lease, doubt, retry, mark, request } = given;
    const policy = resolvePolicy<never>(
      {
        ...(lease !== undefined && { lease }),
        ...(doubt !== undefined && { doubt }),
        ...(retry !== undefined && { retry }),
      },
      "take",
    );
    const { confinedTo: tenant, agent: ours } = this.#services.defaults;
    const agent = given.agent ?? ours ?? undefined;
    if (agent !== undefined) checkAgent(agent, "take");
    const named = request !== undefined;
    return { actions, limit, policy, retry, agent, holder, tenant, manual: mark === "manual", named };
  }

  async #takeNow(taking: Taking, caller: Caller): Promise<readonly Taken[]> {
    const due = await this.#due(taking);
    const taken = [...due, ...(await this.#inDoubt({ ...taking, limit: taking.limit - due.length }))];
    // The caller has left before it was answered: nothing was begun. Where it named its request it may ask again.
    if (!caller.gone() || taking.named) return taken;
    const { now } = this.#services.engine.services.ledger.instant();
    await Promise.all(taken.map(({ stored }) => giveBack(this.#services, stored, now).catch(() => {})));
    return [];
  }

  async #due({ limit, ...taking }: Taking): Promise<readonly Taken[]> {
    const { ledger, underWay } = this.#services.engine.services;
    const { policy, holder, actions, tenant } = taking;
    const taken: Taken[] = [];
    for (let passed = 0; passed < MOST_PASSED_OVER && taken.length < limit; passed += 1) {
      if (underWay.closed) break;
      // Nothing counts as sent before its turn, its deadline and its input were looked at.
      const query = { limit: limit - taken.length, leaseMs: policy.leaseMs, to: "claimed", actions, holder } as const;
      const leased = await ledger.lease({ ...query, ...onlyOf(tenant) });
      if (leased.length === 0) break;
      for (const stored of leased) {
        const one = await this.#begin(stored, { ...taking, limit });
        if (one !== null) taken.push(one);
      }
    }
    return taken;
  }

  /** Null: not to be worked on now, and out of the way. */
  async #begin(leased: Stored, taking: Taking): Promise<Taken | null> {
    const { engine } = this.#services;
    const { ledger } = engine.services;
    const { policy, manual } = taking;
    const stored = await this.#atItsTurn(leased);
    if (stored === null) return null;
    const input = await this.#inputOf(stored);
    if (input === null) return null;
    if (manual) return takenOf(stored, taking, input);
    const { leaseMs } = policy;
    const event = { type: "mark", hold: holdOf(stored.record), leaseMs, timeoutMs: leaseMs, draft: null } as const;
    const marked = await ledger.apply(stored, event);
    return marked.ok ? takenOf(marked.stored, taking, input) : null;
  }

  async #atItsTurn(leased: Stored): Promise<Stored | null> {
    if (leased.record.terms?.line === undefined) return leased;
    const { engine } = this.#services;
    const turn = await leasedTurn(engine, leased);
    if (turn.as === "begin") return turn.stored;
    if (turn.as === "wait")
      await giveBack(this.#services, turn.stored, lookAgainAt(turn.before, engine.services.ledger.instant()));
    return null;
  }

  /** Null: it cannot be run, and is put aside with the reason. */
  async #inputOf(stored: Stored): Promise<{ readonly value: unknown } | null> {
    const { ledger, payloads } = this.#services.engine.services;
    const { record } = stored;
    const stale = staleSince(record, ledger.instant().now);
    const lacks = stale === null ? payloads.lacks(record) : null;
    if (stale !== null) await parkLeased(this.#services, stored, stale, "expired");
    if (lacks !== null) await leaveToOthers(this.#services, stored, lacks);
    if (stale !== null || lacks !== null) return null;
    try {
      return { value: this.#readInput(record) };
    } catch (error) {
      if (isOfAllRecords(error)) throw error;
      await parkLeased(this.#services, stored, error, "unreadable");
      return null;
    }
  }

  #readInput(record: LedgerRecord): unknown {
    const { engine, defaults } = this.#services;
    const { value, omitted } = engine.services.payloads.load(record, "input");
    if (omitted !== undefined) throw new NevertwiceError("INVALID_INPUT", `its input cannot be read: ${omitted}`);
    if (record.input === null) {
      const print = printOf(undefined, [], record.key, defaults);
      if (isInputMissing(record, { print }, [])) throw missingInput(record);
    }
    return value;
  }

  /** Queued work in doubt, where `doubt` says by name that it may be run or sent again. */
  async #inDoubt(taking: Taking): Promise<readonly Taken[]> {
    if (taking.policy.doubt.kind === "hold" || taking.limit === 0) return [];
    const doubts = await this.#listed(taking, ["unknown"], ({ record }) => record.queued);
    const taken: Taken[] = [];
    for (const stored of doubts) {
      if (taken.length >= taking.limit) break;
      const one = await this.#resend(stored, taking);
      if (one !== null) taken.push(one);
    }
    return taken;
  }

  async #resend(stored: Stored, taking: Taking): Promise<Taken | null> {
    const { policy, holder, agent } = taking;
    const { ledger, payloads } = this.#services.engine.services;
    const { record } = stored;
    try {
      if (payloads.lacks(record) !== null) return null;
      // A draft is for the code that prepared it: without it, these would not be the same bytes.
      const sameBytes = record.draft === null;
      const step = nextStep(record, { policy, at: ledger.instant(), newRound: false, sameBytes });
      if (step.do !== "resend") return null;
      const value = this.#readInput(record);
      if (record.terms?.line !== undefined && (await turnOf(swapsOf(ledger), stored)).before !== null) return null;
      const terms = { permit: step.permit, holder, leaseMs: policy.leaseMs, newRound: false };
      const event = { type: "resend", ...terms, ...(agent !== undefined && { agent }) } as const;
      const applied = await ledger.apply(stored, event);
      return applied.ok ? takenOf(applied.stored, taking, { value }) : null;
    } catch (error) {
      if (isOfAllRecords(error)) throw error;
      // One that cannot be read stays in doubt, and stops no other.
      ledger.reportDamage(error);
      return null;
    }
  }

  /** What this very request has taken already: its reply was lost. */
  async #takenBefore(taking: Taking): Promise<readonly ClaimedAttempt[]> {
    const { ledger } = this.#services.engine.services;
    const at = ledger.instant();
    const own = await this.#listed(
      taking,
      ["claimed", "sent"],
      ({ record }) => record.holder === taking.holder && leaseAlive(record, at),
    );
    const begun: ClaimedAttempt[] = [];
    for (const stored of own) {
      const taken = await this.#givenAgain(stored, taking);
      if (taken !== null) begun.push({ ...taken.attempt, again: true });
    }
    return begun;
  }

  async #givenAgain(stored: Stored, taking: Taking): Promise<Taken | null> {
    // Leased, and the service ended before it was looked at: begun now.
    if (stored.record.state === "claimed" && !taking.manual) return this.#begin(stored, taking);
    try {
      return takenOf(stored, taking, { value: this.#readInput(stored.record) });
    } catch (error) {
      if (isOfAllRecords(error)) throw error;
      return null;
    }
  }

  async #listed({ actions, tenant }: Taking, states: readonly State[], wanted: (stored: Stored) => boolean) {
    const { ledger } = this.#services.engine.services;
    const found: Stored[] = [];
    for (const action of actions) {
      let cursor: string | null = null;
      for (let page = 0; page < MOST_PAGES && (page === 0 || cursor !== null); page += 1) {
        const from: { cursor?: string } = cursor === null ? {} : { cursor };
        const list = await ledger.list({ states, action, limit: PAGE, order: "oldest", ...onlyOf(tenant), ...from });
        found.push(...list.items.filter(wanted));
        cursor = list.cursor;
      }
    }
    return found;
  }
}

interface Taking {
  readonly actions: readonly string[];
  readonly limit: number;
  readonly policy: Policy;
  readonly retry: RetryOptions | undefined;
  readonly agent: string | undefined;
  readonly holder: string;
  readonly tenant: string | undefined;
  readonly manual: boolean;
  /** The caller named its request, and may ask again. */
  readonly named: boolean;
}

interface Taken {
  readonly stored: Stored;
  readonly attempt: ClaimedAttempt;
}

function takenOf(stored: Stored, { policy, retry, agent }: Taking, { value }: { readonly value: unknown }): Taken {
  const attempt = attemptIn(stored.record, { leaseMs: policy.leaseMs, retry, agent }, { again: false, input: value });
  return { stored, attempt: { ...attempt, input: value ?? null } };
}
