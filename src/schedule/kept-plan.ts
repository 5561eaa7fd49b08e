/** A plan is made once and read by every run of its slot: one that the ledger would change or leave out is refused. */
import { NevertwiceError } from "../core/errors.ts";
import { lostAsJson } from "../core/lost-as-json.ts";
import { DEFAULT_LIMITS } from "../engine/payloads.ts";

const refusals = new WeakSet<object>();

/** The plan as the ledger gives it back. */
export function keptPlan<P>(plan: P, where: string): P {
  // Stored as nothing, and nothing comes back.
  if (plan === undefined) return plan;
  const lost = lostAsJson(plan, "plan", { exact: true });
  if (lost !== null) throw refusal(where, `${lost.path} is ${lost.what}. ${lost.remedy}`);
  const json = JSON.stringify(plan);
  const bytes = Buffer.byteLength(json);
  if (bytes > DEFAULT_LIMITS.resultBytes)
    throw refusal(
      where,
      `as JSON it has ${bytes} bytes, and ${DEFAULT_LIMITS.resultBytes} is the most. Store what is large elsewhere, and return its id or path.`,
    );
  return JSON.parse(json) as P;
}

/** Not a failure that passes by itself: the program has to be corrected, and may then be called again. */
export function planVerdict(error: unknown): "refused" | undefined {
  return typeof error === "object" && error !== null && refusals.has(error) ? "refused" : undefined;
}

function refusal(where: string, why: string): NevertwiceError {
  const error = new NevertwiceError(
    "INVALID_INPUT",
    `${where}: its plan cannot be kept, so that a second run of the slot would get another one: ${why} The slot was not run.`,
  );
  refusals.add(error);
  return error;
}
