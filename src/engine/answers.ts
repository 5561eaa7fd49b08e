/** What a call is told about the record that it met, with the events that go with it. */
import { canCompare } from "../core/key/fingerprint.ts";
import { type Absent, type Outcome, outcomeOfRecord } from "../core/outcome.ts";
import { preventedBy } from "../core/prevented.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";
import { withFence } from "./delivered.ts";
import { rememberedError, withStoredCause } from "./error-memory.ts";
import { about } from "./events.ts";
import type { ExecutionServices } from "./execution.ts";
import { rekeyed } from "./make-call.ts";
import type { ReplayCache } from "./replay-cache.ts";
import { asSeenBy, type Other, otherInputIfKnown, withDiffers, withFreeDiffers } from "./same-input.ts";

export class Answers {
  readonly #services: ExecutionServices;
  readonly #replays: ReplayCache;

  constructor(services: ExecutionServices, replays: ReplayCache) {
    this.#services = services;
    this.#replays = replays;
  }

  /** How a record reads to anybody; or to who looks for it with the input of a call, and runs nothing. */
  describe(record: LedgerRecord, call?: Call): Outcome<unknown> | Absent {
    const { ledger, payloads } = this.#services;
    const at = ledger.instant();
    const outcome = outcomeOfRecord<unknown>(record, at, {
      result: (of) => payloads.load(of, "result"),
      error: rememberedError,
    });
    const told = withStoredCause(outcome, record);
    return call === undefined ? told : asSeenBy(rekeyed(call, record, record), record, told, at);
  }

  /**
   * How it reads to this call: with the fields in which the two differ, where that is no conflict. `isRepeat`: the call has made
   * no attempt of its own.
   */
  of(call: Call, record: LedgerRecord, isRepeat = true): Outcome<unknown> {
    const outcome = this.describe(record) as Outcome<unknown>;
    const cause = isRepeat ? preventedBy(outcome) : null;
    if (cause !== null) this.#services.prevented.count(call, cause);
    const { events, unguarded, ledger } = this.#services;
    if (call.definition.policy.failOpen) unguarded.settled(record);
    if (outcome.status === "done") {
      const { policy } = call.definition;
      // Another process may tell that its answer has arrived: the ledger is asked each time.
      if (policy.untilDelivered !== true)
        this.#replays.put({ record, version: 0 }, this.#services.ledger.instant().now, call.calledAs);
      events.emit({ type: "replayed", ...about(call), attempt: record.attempt });
      const done = withFence(outcome, policy, record.fence);
      return canCompare(record.fingerprint, call.print) ? withFreeDiffers(done, call, record) : done;
    }
    if (outcome.status === "in_flight") events.emit({ type: "in_flight", ...about(call) });
    if (outcome.status !== "unknown") return outcome;
    return withDiffers(outcome, otherInputIfKnown(call, record, ledger.instant()));
  }

  /** What the call of this process that it waited for came to. */
  joined(call: Call, outcome: Outcome<unknown>, freeDiffers: readonly string[]): Outcome<unknown> {
    this.#services.prevented.count(call, "in-flight");
    if (outcome.status !== "done") return outcome;
    this.#services.events.emit({ type: "replayed", ...about(call), attempt: outcome.attempt });
    return { ...outcome, replayed: true, ...(freeDiffers.length > 0 && { differs: freeDiffers }) };
  }

  /** The call of this process that it waited for has not ended. */
  stillUnderWay(call: Call): void {
    this.#services.events.emit({ type: "in_flight", ...about(call) });
    this.#services.prevented.count(call, "in-flight");
  }

  otherInput(call: Call, stored: Stored | null): Other | null {
    return stored === null ? null : otherInputIfKnown(call, stored.record, this.#services.ledger.instant());
  }

  conflictWith(call: Call, other: Other | null): Outcome<unknown> | null {
    return other?.meets === "conflict" ? this.conflict(call, other.differs) : null;
  }

  conflict(call: Call, differs: readonly string[]): Outcome<unknown> {
    this.#services.events.emit({ type: "conflict", ...about(call), differs });
    this.#services.prevented.count(call, "conflict");
    return { status: "conflict", key: call.key, differs };
  }
}
