/** Where the ledger is, and what it is called: the options of redisStore(), checked. */
import { configError } from "../../core/errors.ts";
import { requireGiven } from "../../core/given-option.ts";
import { refuseUnknownOptions } from "../../core/options.ts";
import { flagParameter, refuseUnknownParameters } from "../../core/store-url.ts";
import type { RedisClient } from "./client.ts";

export interface RedisStoreOptions {
  /** A client of your own: ioredis (Redis, Cluster) or node-redis (createClient, createCluster). It stays yours to close. */
  readonly client?: RedisClient;
  /** Or where the server is: redis://user:password@host:6379/0, rediss:// for TLS. A cluster is found out by itself. */
  readonly url?: string;
  /** What all keys of this ledger begin with; "nevertwice" unless given. */
  readonly prefix?: string;
  /** Guard actions with doubt: "hold" although this server may forget what it acknowledged. */
  readonly allowUnsafe?: boolean;
  /** How long one answer is waited for. */
  readonly timeoutMs?: number;
}

export interface RedisLocation {
  readonly client: RedisClient | null;
  readonly url: string;
  readonly prefix: string;
  readonly allowUnsafe: boolean;
  readonly timeoutMs: number;
  /** For messages: without the password. */
  readonly where: string;
}

const OPTIONS = "client url prefix allowUnsafe timeoutMs".split(" ");
const DEFAULT_TIMEOUT_MS = 5_000;

export function readLocation(options: RedisStoreOptions): RedisLocation {
  refuseUnknownOptions("redisStore", options, OPTIONS);
  const { client, url } = options;
  if ((client === undefined) === (url === undefined)) {
    throw configError(
      'redisStore: give either client (an ioredis or node-redis client) or url ("redis://localhost:6379").',
    );
  }
  // By default another ledger would be used, in which nothing has happened yet.
  requireGiven("redisStore", options, ["prefix"]);
  const named = url === undefined ? null : readUrl(url);
  const prefix = options.prefix ?? named?.prefix ?? "nevertwice";
  // Braces would move the hash tag, and with it the records away from their index.
  if (typeof prefix !== "string" || prefix === "" || /[{}\s]/.test(prefix)) {
    throw configError(`redisStore: prefix is ${JSON.stringify(prefix)}; it takes a name without braces and blanks.`);
  }
  const timeoutMs = options.timeoutMs ?? named?.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  if (!Number.isFinite(timeoutMs) || timeoutMs <= 0) {
    throw configError(`redisStore: timeoutMs is ${String(timeoutMs)}; it takes milliseconds above zero.`);
  }
  return {
    client: client ?? null,
    url: named?.url ?? "",
    prefix,
    allowUnsafe: options.allowUnsafe ?? named?.allowUnsafe ?? false,
    timeoutMs,
    where: named === null ? `redis (your client), prefix ${prefix}` : `${named.where}, prefix ${prefix}`,
  };
}

const OWN = ["prefix", "allowUnsafe", "timeoutMs"];
// Options of ioredis that a URL can hold and a ledger can bear. Not keyPrefix: keys are made inside of scripts too.
const IOREDIS =
  "family db connectionName connectTimeout commandTimeout keepAlive noDelay username password maxRetriesPerRequest enableReadyCheck".split(
    " ",
  );
const NOT_BY_NODE_REDIS = " (ioredis reads these; with node-redis pass a client instead.)";

/** Our own words stand in the query, where no driver looks for them: redis://host:6379/0?prefix=agents&allowUnsafe=true */
function readUrl(text: string) {
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (parsed === null || !["redis:", "rediss:"].includes(parsed.protocol) || parsed.hostname === "") {
    throw configError(
      "redisStore: the url is not one of a Redis server. Write redis://host:6379, or rediss://host:6380 for TLS.",
    );
  }
  const params = parsed.searchParams;
  refuseUnknownParameters("redisStore", params.keys(), { own: OWN, driver: IOREDIS, hint: NOT_BY_NODE_REDIS });
  const prefix = params.get("prefix");
  const allowUnsafe = flagParameter(params, "allowUnsafe", "redisStore");
  const timeoutMs = params.get("timeoutMs");
  for (const name of OWN) params.delete(name);
  return {
    url: parsed.href,
    where: `${parsed.protocol}//${parsed.host}${parsed.pathname}`,
    ...(prefix !== null && { prefix }),
    ...(allowUnsafe !== null && { allowUnsafe }),
    ...(timeoutMs !== null && { timeoutMs: /^\d+$/.test(timeoutMs) ? Number(timeoutMs) : Number.NaN }),
  };
}
