/**
 * Done, and no result on record: either there was none (`run` returned undefined, and its record has no payload), or one was
 * not kept. The two must not be mixed up: a caller with a typed result may be given undefined in the first case only.
 */
import type { LedgerRecord, Payload } from "./record.ts";
import { storableText } from "./storable-text.ts";

/** Said by whoever settled it from outside: the action returns nothing, so that a repeat gets undefined. */
export const NO_RESULT: Payload = { omitted: "none: it returns nothing" };

/** Settled without the result that it may have had. */
export const RESULT_NOT_GIVEN = {
  resolve: { omitted: "it was resolved as done without a result" },
  probe: { omitted: "its probe found it done without a result" },
  import: { omitted: "it was imported without a result" },
} as const satisfies Readonly<Record<string, Payload>>;

const LONGEST_REASON = 300;

/** In words of our own first: what an omitted result says may mean more than that (an alias is told by it). */
export function notKeptByCaller(why: string): Payload {
  return { omitted: `its caller did not keep it: ${storableText(why.slice(0, LONGEST_REASON))}` };
}

export function isNoResult(payload: Payload): boolean {
  return "omitted" in payload && payload.omitted === (NO_RESULT as { readonly omitted: string }).omitted;
}

/** Done, and whatever it returned is not on record: somebody who knows it may add it. */
export function lacksResult(record: LedgerRecord): boolean {
  const { state, result } = record;
  if (state !== "confirmed") return false;
  return result === null ? whyNotKept(record) !== null : "omitted" in result && !isNoResult(result);
}

/** Of a record without a payload. Earlier releases left it out where a resolution or a probe gave none. */
export function whyNotKept({ state, result, history }: LedgerRecord): string | null {
  if (state !== "confirmed" || result !== null) return null;
  const last = history.at(-1);
  if (last?.to !== "confirmed") return null;
  if (last.event === "resolved-done") return RESULT_NOT_GIVEN.resolve.omitted;
  return last.event === "probed-done" ? RESULT_NOT_GIVEN.probe.omitted : null;
}
