/**
 * Keys that were set with SET NX, found by SCAN (KEYS would block the server). A lock is read together with the result beside
 * it, so that a row says all there is to know about its intent.
 */
import { messageOf } from "../../core/errors.ts";
import { redact } from "../../core/redact.ts";
import { clearTimeout, type RealTimer, setTimeout } from "../../engine/real-timers.ts";
import { connectTo, type Wire } from "../../stores/redis/client.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

/** What a row of the import has. */
export interface RedisRow {
  /** The part of the key that names the intent. */
  readonly key: string;
  /** As it is in Redis. */
  readonly redis_key: string;
  readonly kind: "lock" | "result" | "marker";
  /** Of the result where there is one, otherwise of the lock or the marker. */
  readonly value: string;
  /** What is left of the longer one of lock and result; null: neither has an end. */
  readonly ttl_ms: number | null;
  readonly read_at: number;
}

export interface Match {
  readonly pattern: string;
  readonly prefix: string;
  readonly suffix: string;
}

/** One star, with something before it: a pattern that takes everything would take the keys of other programs too. */
export function matchOf(pattern: string | undefined): Match {
  const [prefix = "", suffix = "", ...more] = (pattern ?? "").split("*");
  if (pattern === undefined || prefix === "" || more.length > 0 || !pattern.includes("*") || /[?[\]\\]/.test(pattern))
    throw new UsageError(
      `--match ${pattern === undefined ? "is missing" : oneLine(pattern)}: it takes the keys to read, a prefix and one star: --match 'email:*' or --match 'idem:*'.`,
    );
  if (/(?:^|:)result:$/.test(prefix))
    throw new UsageError(
      `--match ${oneLine(pattern)} has only what was finished. What was claimed and has no result may have happened too, and would be sent again. Read both: --match '${oneLine(prefix.replace(/result:$/, ""))}*'.`,
    );
  return { pattern, prefix, suffix };
}

interface Named {
  readonly redisKey: string;
  readonly key: string;
  readonly kind: RedisRow["kind"];
  /** Where the result of a lock is. */
  readonly resultKey: string | null;
}

/** email:lock:<key> and email:result:<key>; idem:<key> and idem:<key>:inflight; or one key that says it all. */
function named(redisKey: string, { prefix, suffix }: Match): Named {
  const rest = redisKey.slice(prefix.length, redisKey.length - suffix.length);
  const lockPrefix = /^(.*?)lock:$/.exec(prefix)?.[1];
  if (lockPrefix !== undefined && (lockPrefix === "" || lockPrefix.endsWith(":")))
    return { redisKey, key: rest, kind: "lock", resultKey: `${lockPrefix}result:${rest}${suffix}` };
  if (rest.startsWith("lock:")) {
    const key = rest.slice("lock:".length);
    return { redisKey, key, kind: "lock", resultKey: `${prefix}result:${key}${suffix}` };
  }
  if (rest.startsWith("result:"))
    return { redisKey, key: rest.slice("result:".length), kind: "result", resultKey: null };
  if (rest.endsWith(":inflight")) {
    const key = rest.slice(0, -":inflight".length);
    return { redisKey, key, kind: "lock", resultKey: `${prefix}${key}${suffix}` };
  }
  return { redisKey, key: rest, kind: "marker", resultKey: null };
}

const KEYS_A_SCAN = 500;

export interface RedisSource {
  lines(): AsyncIterable<string>;
  /** Set once the lines were read: the server is one of several, and has only a part of the keys. */
  readonly isPartOfCluster: boolean;
}

export function redisSource(address: string, match: Match, now: () => number): RedisSource {
  let isPartOfCluster = false;
  async function* lines(): AsyncIterable<string> {
    const wire = connectTo(address, "single");
    try {
      isPartOfCluster = /cluster_enabled:1/.test(String(await asked(wire, "INFO", ["cluster"])));
      for await (const row of rows(wire, match, now)) yield JSON.stringify(row);
    } finally {
      await wire.end();
    }
  }
  return {
    lines,
    get isPartOfCluster() {
      return isPartOfCluster;
    },
  };
}

async function* rows(wire: Wire, match: Match, now: () => number): AsyncIterable<RedisRow> {
  let cursor = "0";
  do {
    const page = (await asked(wire, "SCAN", [cursor, "MATCH", match.pattern, "COUNT", String(KEYS_A_SCAN)])) as [
      unknown,
      unknown[],
    ];
    cursor = String(page[0]);
    const names = [...new Set(page[1].map(String))].map((key) => named(key, match));
    for (const row of await Promise.all(names.map((one) => rowOf(wire, one, now)))) if (row !== null) yield row;
  } while (cursor !== "0");
}

/** Null: it expired after the scan. */
async function rowOf(
  wire: Wire,
  { redisKey, key, kind, resultKey }: Named,
  now: () => number,
): Promise<RedisRow | null> {
  if (redisKey.includes("\ufffd"))
    throw new ProblemError(`the key ${oneLine(redisKey)} is not UTF-8. Narrow --match. Nothing was imported.`);
  if (key === "")
    throw new ProblemError(
      `the key ${oneLine(redisKey)} has nothing that names an intent. Narrow --match. Nothing was imported.`,
    );
  const [own, result] = await Promise.all([
    stringAt(wire, redisKey),
    resultKey === null ? null : stringAt(wire, resultKey).catch(nullWhereMoved),
  ]);
  const read_at = now();
  if (own === null && result === null) return null;
  const ttls = [own, result].flatMap((one) => (one === null ? [] : [one.ttlMs]));
  const ttl_ms = ttls.includes(null) ? null : Math.max(...(ttls as number[]));
  const value = (result ?? own)?.value as string;
  return { key, redis_key: redisKey, kind: result === null ? kind : "result", value, ttl_ms, read_at };
}

/** On another server of a cluster. There it is a row of its own, which counts more than its lock here. */
function nullWhereMoved(error: unknown): null {
  if (/\b(?:MOVED|ASK) \d+ /.test(messageOf(error))) return null;
  throw error;
}

async function stringAt(wire: Wire, key: string): Promise<{ value: string; ttlMs: number | null } | null> {
  const [type, ttl] = await Promise.all([asked(wire, "TYPE", [key]), asked(wire, "PTTL", [key])]);
  if (String(type) === "none" || Number(ttl) === -2) return null;
  if (String(type) !== "string")
    throw new ProblemError(
      `the key ${oneLine(key)} is a ${oneLine(String(type))}, not a string that SET NX made. Narrow --match. Nothing was imported.`,
    );
  const value = await asked(wire, "GET", [key]);
  return value === null ? null : { value: String(value), ttlMs: Number(ttl) < 0 ? null : Number(ttl) };
}

const ANSWER_MS = 10_000;

async function asked(wire: Wire, command: string, args: readonly string[]): Promise<unknown> {
  try {
    return await within(wire.ask(command, args), () => messageOf(wire.trouble ?? "it did not answer"));
  } catch (error) {
    throw new ProblemError(`--from could not be read: ${redact(messageOf(error))}. Nothing was imported.`, {
      cause: error,
    });
  }
}

async function within<T>(answer: Promise<T>, why: () => string): Promise<T> {
  let timer: RealTimer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(why())), ANSWER_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    if (timer !== undefined) clearTimeout(timer);
  }
}
