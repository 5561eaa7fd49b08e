/** What a key of Redis says. That it is there means that somebody claimed it; only a result says that it was done. */

import { isTooDeep } from "../core/foreign-json.ts";
import { readJson } from "../core/strict-json.ts";
import { ProblemError } from "./exit.ts";
import type { PresetRow } from "./import-preset-row.ts";
import type { Reading } from "./import-presets.ts";
import type { RedisRow } from "./import-redis.ts";
import { oneLine } from "./text.ts";

/** Words that are set as a mark, and say nothing about the outcome. */
const MARKS = new Set(["1", "true", "t", "ok", "0", "false", "f", "yes", "y", "x", "locked", "lock", "set"]);

export function markerReading(row: PresetRow): Omit<Reading, "action"> {
  const kind = row.text("kind") as RedisRow["kind"];
  const ttl = row.value("ttl_ms");
  const base = { parts: [row.text("key")], at: row.time("read_at"), keepMs: ttl === null ? null : Number(ttl) };
  const value = row.has("value") ? String(row.value("value") ?? "") : "";
  if (kind === "result") return { ...base, as: "done", word: "", result: resultOf(value) };
  const why = "imported while its key was claimed and no result was stored: it may have happened";
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

/** Undefined: it is not a JSON object or list. */
function jsonOf(text: string): unknown {
  if (!/^\s*[[{]/.test(text) || isTooDeep(text)) return undefined;
  const reading = readJson(text);
  return reading.ok && reading.inexact === null ? reading.value : undefined;
}

function resultOf(text: string): unknown {
  return jsonOf(text) ?? text;
}
