/** The lines of `resolve --from`: a decision each, or why it is none. */
import { messageOf } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { checkResolution, type Resolution } from "../../engine/operate.ts";
import type { Line } from "../json-lines.ts";
import { isFullKey } from "../ledger/find-record.ts";
import { oneLine } from "../term/text.ts";

export interface Decision {
  readonly line: number;
  readonly key: string;
  readonly resolution: Resolution<unknown>;
}

export interface BadLine {
  readonly line: number;
  readonly key?: string;
  readonly why: string;
}

const FIELDS = ["key", "as", "result", "reason", "by"];
const AS = ["done", "not-done", "failed"];

/** `missing`: who decides and why, where a line does not say it. A reason may be missing where nothing is written. */
export function readDecision(
  { number, input, broken }: Line,
  missing: { readonly by: string; readonly reason: string },
): Decision | BadLine {
  if (broken !== undefined) return { line: number, why: broken };
  const key = keyIn(input);
  const why = whatIsWrong(input);
  if (why !== null) return { line: number, ...(key !== null && { key }), why };
  const given = input as { key: string; as: Resolution<unknown>["as"]; result?: unknown; reason?: string; by?: string };
  const { as, reason = missing.reason, by = missing.by } = given;
  const resolution = { as, by, reason, ...("result" in given && { result: given.result }) };
  try {
    checkResolution(resolution, "the decision");
  } catch (error) {
    return { line: number, key: given.key, why: messageOf(error) };
  }
  return { line: number, key: given.key, resolution };
}

function keyIn(input: unknown): string | null {
  const key = typeof input === "object" && input !== null ? (input as { key?: unknown }).key : null;
  return typeof key === "string" ? key : null;
}

function whatIsWrong(input: unknown): string | null {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return 'it is not a decision. Write {"key":"nt1_…","as":"done"}.';
  const { key, as, ...given } = input as Record<string, unknown>;
  if (typeof key !== "string" || !isFullKey(key))
    return `key is ${shown(key)}; it takes a whole key (nt1_ and 52 characters), as ls --doubt --json shows it.`;
  if (typeof as !== "string" || !AS.includes(as)) return `as is ${shown(as)}; it takes "done", "not-done" or "failed".`;
  for (const field of Object.keys(given)) {
    if (FIELDS.includes(field)) continue;
    const meant = nearest(field, FIELDS);
    return `there is no field ${shown(field)}.${meant === null ? "" : ` Did you mean ${meant}?`} The fields are: ${FIELDS.join(", ")}.`;
  }
  for (const field of ["reason", "by"]) {
    if (field in given && typeof given[field] !== "string")
      return `${field} is ${shown(given[field])}; it takes a text.`;
  }
  if ("result" in given && as !== "done") return `result goes with "done": what did not happen has no result.`;
  return null;
}

function shown(value: unknown): string {
  return oneLine((JSON.stringify(value) ?? "missing").slice(0, 80));
}
