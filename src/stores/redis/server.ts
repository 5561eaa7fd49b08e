/** What the server says about itself, and what that means for a promise: which Redis keeps what it acknowledged. */
import { configError, messageOf } from "../../core/errors.ts";
import type { Finding, StoreTraits } from "../../core/store.ts";
import { type RedisLink, textOf } from "./link.ts";

export interface ServerFacts {
  readonly product: string;
  readonly version: string;
  readonly role: string;
  readonly replicas: number;
  readonly cluster: boolean;
  readonly appendOnly: boolean;
  /** Null: CONFIG GET is forbidden, as it is on most managed servers. */
  readonly appendFsync: string | null;
  readonly eviction: string | null;
  readonly usedMemory: string;
  readonly maxMemory: string;
}

const OLDEST = 7;

export async function askServer(link: RedisLink): Promise<ServerFacts> {
  const info = parseInfo(textOf(await link.ask("INFO")));
  const config = await askConfig(link);
  const facts: ServerFacts = {
    product: info.has("valkey_version") ? "Valkey" : "Redis",
    version: info.get("valkey_version") ?? info.get("redis_version") ?? "unknown",
    role: info.get("role") ?? "unknown",
    replicas: Number(info.get("connected_slaves") ?? 0),
    cluster: info.get("cluster_enabled") === "1",
    appendOnly: info.get("aof_enabled") === "1",
    appendFsync: config.get("appendfsync") ?? null,
    eviction: config.get("maxmemory-policy") ?? info.get("maxmemory_policy") ?? null,
    usedMemory: info.get("used_memory_human") ?? "unknown",
    maxMemory: info.get("maxmemory") === "0" ? "no limit" : (info.get("maxmemory_human") ?? "unknown"),
  };
  refuseUnfit(facts, link);
  return facts;
}

function refuseUnfit(facts: ServerFacts, { where, wire }: RedisLink): void {
  const { product, version, role, cluster } = facts;
  // Valkey began at 7.2.
  if (product === "Redis" && Number.parseInt(version, 10) < OLDEST) {
    throw configError(
      `the Redis ledger (${where}) needs Redis ${OLDEST} or Valkey; this is Redis ${version}. Upgrade it.`,
    );
  }
  if (role === "slave") {
    throw configError(
      `the Redis ledger (${where}) is a read-only replica: what it holds may be old. Point the client at its primary.`,
    );
  }
  if (cluster && !wire.cluster) {
    throw configError(
      `the Redis ledger (${where}) is a node of a cluster, and the client is a plain one. Pass new Cluster([…]) of ioredis or createCluster(…) of redis.`,
    );
  }
}

function parseInfo(text: string): Map<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(":") && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

async function askConfig(link: RedisLink): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of ["appendfsync", "maxmemory-policy"]) {
    try {
      for (const [key, value] of pairs(await link.ask("CONFIG", "GET", name))) found.set(key, value);
    } catch (error) {
      // Forbidden or renamed: then it is not known. A connection that broke is another matter.
      if (!/NOPERM|unknown command|unknown subcommand|not allowed|disabled|denied/i.test(messageOf(error))) throw error;
    }
  }
  return found;
}

/** A list of names and values (RESP2), or a map (RESP3). */
function pairs(answer: unknown): [string, string][] {
  if (answer instanceof Map) return [...answer].map(([name, value]) => [textOf(name), textOf(value)]);
  if (!Array.isArray(answer))
    return Object.entries((answer ?? {}) as Record<string, unknown>).map(([n, v]) => [n, textOf(v)]);
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < answer.length; i += 2) found.push([textOf(answer[i]), textOf(answer[i + 1])]);
  return found;
}

/** Why an acknowledged claim may vanish from this server; none: it stays. */
export function losses(facts: ServerFacts): string[] {
  const { cluster, replicas, appendOnly, appendFsync, eviction } = facts;
  const found: string[] = [];
  if (cluster) found.push("it is a cluster, whose failover can lose an acknowledged claim");
  else if (replicas > 0) found.push("it has replicas, and a failover to one of them can lose an acknowledged claim");
  if (!appendOnly) found.push("it keeps no append-only file (appendonly no)");
  else if (appendFsync === null) found.push("it does not say when it syncs (CONFIG GET is forbidden)");
  else if (appendFsync !== "always") found.push(`it syncs too late (appendfsync ${appendFsync})`);
  if (eviction === null) found.push("it does not say what it evicts (CONFIG GET is forbidden)");
  else if (eviction !== "noeviction") found.push(`it evicts (maxmemory-policy ${eviction})`);
  return found;
}

export function survivesOf(facts: ServerFacts | null): StoreTraits["survives"] {
  return facts !== null && losses(facts).length === 0 ? "power-loss" : "best-effort";
}

/** Why `hold` cannot be promised here; null: it can. */
export function holdRefusal(facts: ServerFacts): string | null {
  const found = losses(facts);
  if (found.length === 0) return null;
  return `doubt: "hold" promises that the effect happens at most once, and this ${facts.product} may forget a claim it acknowledged: ${found.join("; ")}. Use a standalone server with appendonly yes, appendfsync always and maxmemory-policy noeviction, or a Postgres or SQLite ledger; or give the action a way to settle doubts (doubt: { resendWithin }, { probe } or "retry"); or accept the risk with redisStore({ allowUnsafe: true }).`;
}

export function findingsOf(facts: ServerFacts, where: string, allowUnsafe: boolean): Finding[] {
  const { product, version, role, replicas, cluster, appendOnly, appendFsync, eviction } = facts;
  const sync = appendOnly
    ? `append-only file, appendfsync ${appendFsync ?? "unknown (CONFIG GET is forbidden)"}`
    : "no append-only file";
  const found = losses(facts);
  return [
    { name: "server", value: `${product} ${version} at ${where}`, ok: true },
    {
      name: "role",
      value: cluster ? `primary in a cluster` : `${role === "master" ? "primary" : role}, ${replicas} replicas`,
      ok: true,
    },
    {
      name: "persistence",
      value: sync,
      ok: appendOnly,
      advice: "set appendonly yes and appendfsync always: without them a restart forgets what was done",
    },
    {
      name: "eviction",
      value: eviction ?? "unknown (CONFIG GET is forbidden)",
      ok: eviction === null || eviction === "noeviction",
      advice: "set maxmemory-policy noeviction: an evicted record lets its effect happen again",
    },
    { name: "memory", value: `${facts.usedMemory} used, ${facts.maxMemory}`, ok: true },
    {
      name: "hold actions",
      value:
        found.length === 0
          ? "guarded"
          : allowUnsafe
            ? `allowed by allowUnsafe, though ${found.join("; ")}`
            : `refused: ${found.join("; ")}`,
      ok: true,
    },
  ];
}
