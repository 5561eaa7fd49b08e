/**
 * Servers that belong to one test, which may stop, kill, cut off or promote them. They end with the test, or with the
 * file when called at its top level; a worker that dies takes them along.
 */
import { afterAll, onTestFinished, TestRunner } from "vitest";
import { type Keep, openKeep } from "../../scripts/services/keep.mjs";
import { startPgBouncer } from "../../scripts/services/pgbouncer.mjs";
import { type Postgres, startPostgres } from "../../scripts/services/postgres.mjs";
import { type Standby, startStandby } from "../../scripts/services/postgres-standby.mjs";
import { speakTls } from "../../scripts/services/postgres-tls.mjs";
import { ensurePrograms, redisServer } from "../../scripts/services/programs.mjs";
import { type Redis, startRedis, startRedisReplica } from "../../scripts/services/redis.mjs";
import { type RedisCluster, startRedisCluster } from "../../scripts/services/redis-cluster.mjs";
import { startProxy, type TcpProxy } from "../../scripts/services/tcp-proxy.mjs";

export { DURABLE, EVERY_SECOND, IN_MEMORY } from "../../scripts/services/redis.mjs";

type Settings = Record<string, string | number>;

/** Runs the clean-up when the current test is over, or, outside of one, when the file is. */
export function afterwards(clean: () => Promise<void>): void {
  if (TestRunner.getCurrentTest()) onTestFinished(clean);
  else afterAll(clean);
}

export async function ownPostgres(settings: Settings = {}): Promise<Postgres> {
  ensurePrograms(["initdb", "postgres"]);
  return startPostgres(await ownKeep(), { settings });
}

/** A server that speaks TLS; `certificate` is where the one lies that it shows, which nobody else has signed. */
export async function ownPostgresInTls(): Promise<{ server: Postgres; certificate: string }> {
  ensurePrograms(["initdb", "postgres", "openssl"]);
  const keep = await ownKeep();
  const server = await startPostgres(keep);
  return { server, certificate: await speakTls(keep, server) };
}

/** `port`: a proxy in front of the primary, so that the test can cut the stream. */
export async function ownStandby(
  primary: Postgres,
  options: { synchronous?: boolean; port?: number } = {},
): Promise<Standby> {
  ensurePrograms(["pg_basebackup"]);
  return startStandby(await ownKeep(), primary, options);
}

export async function ownPgBouncer(upstream: { url: string }, settings: Settings = {}) {
  ensurePrograms(["pgbouncer"]);
  return startPgBouncer(await ownKeep(), upstream, { settings });
}

export async function ownRedis(settings?: Settings): Promise<Redis> {
  ensurePrograms([redisServer]);
  return startRedis(await ownKeep(), settings && { settings });
}

/** `primary` may be a proxy in front of one. */
export async function ownRedisReplica(primary: Pick<Redis, "port">, settings?: Settings): Promise<Redis> {
  return startRedisReplica(await ownKeep(), primary, settings && { settings });
}

/** `nodeTimeoutMs`: how long a node must be silent to be taken for dead. */
export async function ownRedisCluster(
  options: { settings?: Settings; nodeTimeoutMs?: number } = {},
): Promise<RedisCluster> {
  ensurePrograms([redisServer]);
  return startRedisCluster(await ownKeep(), options);
}

/** A proxy in front of the server in this URL; `proxy.url(url)` is the way through it. */
export async function proxyTo(target: string | { port: number }): Promise<TcpProxy> {
  const proxy = await startProxy(target);
  afterwards(() => proxy.close());
  return proxy;
}

async function ownKeep(): Promise<Keep> {
  const keep = await openKeep();
  afterwards(() => keep.close());
  return keep;
}
