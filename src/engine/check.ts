/**
 * An action's check: user code that runs before the claim, and only where the call would claim. A repeat is answered from the
 * ledger, whatever the check would say by now. What a check throws was surely not sent, and leaves no record.
 */

import { classify } from "../core/classify.ts";
import { isStoreDown } from "../core/damaged-record.ts";
import { unmarked } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Call } from "./call.ts";
import type { Check, CheckContext } from "./check-context.ts";
import type { Clock } from "./clock.ts";
import { type Logger, probeAs } from "./context.ts";
import { aliasSwapsOf, peek } from "./formerly.ts";
import type { Ledger } from "./ledger.ts";
import { type LimitServices, stoppedByLimit } from "./limited.ts";
import { timeoutError } from "./work.ts";

type Stopped = Extract<Outcome<unknown>, { readonly status: "failed" }>;

interface CheckServices extends LimitServices {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly underWay: object;
}

/** To be asked right before a claim. Null: nothing stands against it. */
export async function stoppedByCheck(services: CheckServices, call: Call, tx?: unknown): Promise<Stopped | null> {
  const { check } = call.definition;
  const { checking } = call;
  if (checking === undefined || checking.passed) return null;
  try {
    if (check !== undefined) await limited(services, call, check, tx);
    const above = call.ofTool === undefined ? null : await stoppedByLimit(services, call);
    if (above !== null) return above;
  } catch (error) {
    const { now } = services.ledger.instant();
    const verdict = classify(error, now);
    const retryAfterMs = verdict.kind === "not-sent" ? verdict.retryAfterMs : null;
    const failed = { status: "failed", key: call.key, error: unmarked(error), final: false } as const;
    return retryAfterMs === null ? failed : { ...failed, retryAt: now + retryAfterMs };
  }
  checking.passed = true;
  return null;
}

/** An intent with former keys that is not recorded yet: checked before the keys are recorded as names of one intent. */
export async function stoppedUnrecorded(services: CheckServices, call: Call): Promise<Stopped | null> {
  if (call.checking === undefined) return null;
  try {
    if ((await peek(aliasSwapsOf(services.ledger), call)).stored !== null) return null;
  } catch (error) {
    // What follows asks the store again, and says so.
    if (isStoreDown(error)) return null;
    throw error;
  }
  return stoppedByCheck(services, call);
}

async function limited(
  { clock, logger, underWay }: CheckServices,
  call: Call,
  check: Check<unknown>,
  tx: unknown,
): Promise<void> {
  const { key, tenant, scope, definition, input } = call;
  const { timeoutMs } = definition.policy;
  const abort = new AbortController();
  const context: CheckContext = { key, tenant, scope, signal: abort.signal, log: logger, tx };
  // close() inside of it does not wait for it, as inside of a probe.
  const work = probeAs(underWay, () => check(input, context));
  await new Promise<void>((passed, stopped) => {
    const timer = clock.after(timeoutMs, () => {
      const error = timeoutError("check", timeoutMs);
      abort.abort(error);
      stopped(error);
    });
    work.then(
      () => {
        timer.cancel();
        passed();
      },
      (error: unknown) => {
        timer.cancel();
        stopped(error);
      },
    );
  });
}
