/**
 * The limit of a guarded tool. A call above it waits for nothing: it is not run, leaves no record, and hears when to try again.
 * It is asked for right before the claim, so that a repeat is answered from the ledger and takes no place.
 */
import { randomUUID } from "node:crypto";
import { formatDuration } from "../core/duration.ts";
import { isStoreUnavailable } from "../core/errors.ts";
import type { LaneAnswer, Limit } from "../core/limit.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Call } from "./call.ts";
import { type Clock, sleep } from "./clock.ts";
import { type Lanes, laneOf } from "./lanes.ts";
import type { Ledger } from "./ledger.ts";
import type { PreventedCounts } from "./prevented.ts";

export interface LimitServices {
  readonly lanes: Lanes;
  readonly prevented: PreventedCounts;
}

type Stopped = Extract<Outcome<unknown>, { readonly status: "failed" }>;

// Where many want in at once, and the note changed under each of them.
const CROWDED_MS = 1_000;

/** Null: it may begin, and has its place. */
export async function stoppedByLimit(
  { lanes, prevented, ledger, clock }: LimitServices & { readonly ledger: Ledger; readonly clock: Clock },
  call: Call,
): Promise<Stopped | null> {
  const { ofTool: { slot } = {}, definition } = call;
  const { limit, policy } = definition;
  if (slot === undefined || limit === null) return null;
  const lane = laneOf(lanes, call, limit.by, "Nothing was run.");
  const id = randomUUID();
  let answer: LaneAnswer;
  try {
    answer = await lanes.enter(lane, limit, { id, holdMs: 2 * policy.timeoutMs + policy.leaseMs });
  } catch (error) {
    // A store that is down is the claim's to report.
    if (!isStoreUnavailable(error)) return null;
    answer = { id, go: false, at: ledger.instant().now + CROWDED_MS, opensInMs: 0 };
  }
  const { now } = ledger.instant();
  if (!answer.go) {
    prevented.count(call, "limit");
    const retryAt = Math.max(answer.at, now + answer.opensInMs);
    return { status: "failed", key: call.key, error: new LimitReached(limit), final: false, retryAt };
  }
  const beganAt = clock.monotonic();
  slot.leave = () => lanes.leave(lane, limit, id, clock.monotonic() - beganAt);
  if (answer.at > now) await sleep(clock, answer.at - now);
  return null;
}

class LimitReached extends Error {
  override readonly name = "LimitReached";

  constructor({ concurrency, spacingMs }: Limit) {
    const words = [
      ...(concurrency === null ? [] : [`at most ${concurrency} at once`]),
      ...(spacingMs === null ? [] : [`one every ${formatDuration(spacingMs)}`]),
    ];
    super(`its limit is reached (${words.join(", ")})`);
  }
}
