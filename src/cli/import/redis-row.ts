/** What a key of Redis says. That it is there means that somebody claimed it; only a result says that it was done. */

import { isTooDeep } from "../../core/foreign-json.ts";
import { readJson } from "../../core/strict-json.ts";
import { ProblemError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import type { PresetRow } from "./preset-row.ts";
import type { Reading } from "./reading.ts";
import type { RedisRow } from "./redis.ts";
import { howToMap } from "./status.ts";
import { statusMembers } from "./status-column.ts";

/** Words that are set as a mark, and say nothing about the outcome. */
const MARKS = new Set(["1", "true", "t", "ok", "0", "false", "f", "yes", "y", "x", "locked", "lock", "set"]);

export function markerReading(row: PresetRow): Omit<Reading, "action"> {
  const kind = row.text("kind") as RedisRow["kind"];
  const ttl = row.value("ttl_ms");
  const base = { parts: [row.text("key")], at: row.time("read_at"), keepMs: ttl === null ? null : Number(ttl) };
  const value = row.has("value") ? String(row.value("value") ?? "") : "";
  const why = "imported while its key was claimed and no result was stored: it may have happened";
  if (value.trim() === "")
    return { ...base, as: "doubt", word: "", why: "imported with an empty value: it may have happened" };
  const said = statusIn(row, value);
  if (said !== null && said.as !== "done") return { ...base, ...said };
  if (kind === "result") return { ...base, as: "done", word: "", result: resultOf(value) };
  if (kind === "lock") return { ...base, as: "doubt", word: "", why };
  const json = jsonOf(value);
  if (json !== undefined) return { ...base, as: "done", word: "", result: json };
  const end = row.statusOf(value, !MARKS.has(value.trim().toLowerCase()));
  if (end === undefined)
    throw new ProblemError(
      `the value ${oneLine(JSON.stringify(value))} of ${oneLine(String(row.value("redis_key")))} does not say whether it happened: a key that is set before the effect is only claimed. Say what it means: --status "${oneLine(value)}=unknown" (it may have happened) or =done; --status "*=done" for every other value, which is then kept as the result.`,
    );
  return { ...base, ...end, why, ...(end.as === "done" && { result: value }) };
}

/** What the members of a JSON object say together; null: none of them is a status. Done only where all of them say so. */
function statusIn(row: PresetRow, value: string): Pick<Reading, "as" | "word" | "why" | "error"> | null {
  const json = jsonOf(value);
  if (typeof json !== "object" || json === null || Array.isArray(json)) return null;
  const ends = statusMembers(json).map((member) => {
    const end = typeof member.value === "object" ? undefined : row.statusOf(String(member.value), true);
    if (end !== undefined) return { ...member, ...end };
    throw new ProblemError(
      `the ${oneLine(member.name)} ${oneLine(JSON.stringify(member.value))} in the value of ${oneLine(String(row.value("redis_key")))} does not say whether it happened. ${howToMap(member.value)}`,
    );
  });
  const found = ends.find(({ as }) => as !== "done") ?? ends[0];
  if (found === undefined) return null;
  const { as, word, name } = found;
  if (as === "done") return { as, word };
  const isFailed = as === "failed" && ends.every((end) => end.as === "failed");
  if (isFailed) return { as, word, error: errorIn(json) };
  // Claimed and not finished, or members that contradict each other: only a word that the user explained says "never".
  if (as === "not-done" && row.isGiven(word) && ends.every((end) => end.as === "not-done")) return { as, word };
  const shown = oneLine(JSON.stringify(found.value));
  return { as: "doubt", word, why: `imported with ${oneLine(name)} ${shown} in its value: it may have happened` };
}

function errorIn(json: object): string {
  const { error, message } = json as { readonly error?: unknown; readonly message?: unknown };
  const text = [error, message].find((one) => typeof one === "string" && one !== "");
  return typeof text === "string" ? text : "it failed before it was imported";
}

/** Undefined: it is not a JSON object or list. */
function jsonOf(text: string): unknown {
  if (!/^\s*[[{]/.test(text) || isTooDeep(text)) return undefined;
  const reading = readJson(text);
  return reading.ok && reading.inexact === null ? reading.value : undefined;
}

function resultOf(text: string): unknown {
  return jsonOf(text) ?? text;
}
