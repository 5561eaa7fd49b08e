/** What Redis and its clients complain about, as an error that says what to do next. */
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../../core/errors.ts";

interface Remedy {
  readonly matches: RegExp;
  readonly code: "CONFIG" | "STORE_UNAVAILABLE";
  readonly says: string;
}

const REMEDIES: readonly Remedy[] = [
  {
    matches: /^(WRONGPASS|NOAUTH)|invalid username-password|AUTH.*called without any password/i,
    code: "CONFIG",
    says: "it refused the user name or password. Put the right ones into the URL (redis://user:password@host:port) or into the client.",
  },
  {
    matches: /^NOPERM/,
    code: "CONFIG",
    says: "the user may not do this. Grant it: ACL SETUSER <name> ~<prefix>:* &<prefix>:* +@read +@write +@scripting +@pubsub +time +info.",
  },
  {
    matches: /^READONLY/,
    code: "STORE_UNAVAILABLE",
    says: "it is a read-only replica, or became one in a failover. Point the client at the primary (Sentinel and Cluster clients follow it by themselves).",
  },
  {
    matches: /^CROSSSLOT|cluster support disabled/i,
    code: "CONFIG",
    says: "the client and the server disagree about Cluster. Use a Cluster client for a cluster and a plain one for a single server.",
  },
  {
    matches: /^MOVED|^ASK /,
    code: "CONFIG",
    says: "it is a node of a cluster, and the client is not a Cluster client. Pass new Cluster([…]) of ioredis or createCluster(…) of redis.",
  },
  {
    matches: /^(LOADING|BUSY |MASTERDOWN)/,
    code: "STORE_UNAVAILABLE",
    says: "it is loading its data or busy. Wait until it is ready, and call again.",
  },
  {
    matches: /^(CLUSTERDOWN|TRYAGAIN)|non local key|Too many Cluster redirections|slots cache/i,
    code: "STORE_UNAVAILABLE",
    says: "the cluster is failing over or moving the slot. Call again in a moment; if it stays, see: redis-cli --cluster check.",
  },
  {
    matches: /^OOM/,
    code: "STORE_UNAVAILABLE",
    says: "it has no memory left. Raise maxmemory, or shorten keep; do not turn eviction on, which forgets what was done.",
  },
  {
    matches: /^(MISCONF|NOREPLICAS)/,
    code: "STORE_UNAVAILABLE",
    says: "it refuses writes: its disk is full or broken, or it has too few replicas. See its log.",
  },
  {
    matches: /ENOTFOUND|EAI_AGAIN|Invalid URL|ERR_INVALID_URL|Invalid protocol/i,
    code: "CONFIG",
    says: "there is no such address. Write redis://host:6379, or rediss://host:6380 for TLS.",
  },
  {
    matches:
      /ECONNREFUSED|ENOENT|EHOSTUNREACH|ETIMEDOUT|ECONNRESET|EPIPE|closed|max retries per request|offline|timeout/i,
    code: "STORE_UNAVAILABLE",
    says: "there is no connection to it. See that it runs and can be reached from here, and call again.",
  },
];

/** Redis may be reached through several layers; the innermost message is the one that says why. */
function rootMessage(error: unknown): string {
  const { lastNodeError, errors, originalError } = (error ?? {}) as Record<string, unknown>;
  const inner = lastNodeError ?? originalError ?? (Array.isArray(errors) ? errors[0] : undefined);
  return inner === undefined ? messageOf(error) : `${rootMessage(inner)}`;
}

export function redisError(error: unknown, where: string): NevertwiceError {
  if (isNevertwiceError(error)) return error;
  const message = rootMessage(error);
  const lost = LOST.exec(message)?.[1];
  // The index that was asked about is called after the ledger's prefix and its own hash tag.
  if (lost !== undefined) return ledgerLost(where, lost, lost.replace(/\{[^}]*\}$/, "ledger-id"));
  const remedy = REMEDIES.find(({ matches }) => matches.test(message) || matches.test(messageOf(error)));
  const text = `the Redis ledger (${where}) did not answer: ${remedy?.says ?? "see the message."} (${message})`;
  if (remedy?.code === "CONFIG") return configError(text, error);
  return new NevertwiceError("STORE_UNAVAILABLE", text, { cause: error });
}

export function timedOut(where: string, timeoutMs: number): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the Redis ledger (${where}) did not answer within ${timeoutMs} ms. Whether it did what was asked is not known; asking again is safe. See that it runs and can be reached from here, or raise timeoutMs.`,
  );
}

export function otherLayout(where: string, found: string): NevertwiceError {
  return configError(
    `the Redis ledger (${where}) is laid out in a way this release does not know (layout ${found.slice(0, 20)}): a later release of nevertwice wrote it. Nothing was run. Upgrade nevertwice here, or give this program a prefix of its own.`,
  );
}

/** `parts`: the keys that are not those of this ledger any more. */
export function ledgerLost(where: string, parts: string, identity: string): NevertwiceError {
  return new NevertwiceError(
    "STORE_UNAVAILABLE",
    `the Redis ledger (${where}) has lost data, or was replaced by another one: ${parts} is not what it was. FLUSHALL, FLUSHDB and SWAPDB do this, an eviction, a restart without its files, and a failover to a server without the data. Nothing was run by this call: records that were lost no longer guard their effects, which could happen twice. Restore the data. To go on deliberately with what is there now: redis-cli SET ${identity} adopt, and start the programs again.`,
  );
}

const LOST = /^LEDGERLOST (\S+)/;

export function isNoScript(error: unknown): boolean {
  return /^NOSCRIPT/.test(messageOf(error));
}

/** Over in a moment: a failover, a slot that moves, a server that loads. Asking again is harmless: a swap names its version. */
export function isPassing(error: unknown): boolean {
  return /TRYAGAIN|CLUSTERDOWN|non local key|^LOADING|^MASTERDOWN/.test(`${rootMessage(error)} ${messageOf(error)}`);
}
