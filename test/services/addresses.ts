/**
 * Where this run's servers are, and a clean place on each of them per test file. Two files run at once, so nothing
 * here may be shared between files: a database of its own, a Redis database per worker, a key prefix on the cluster.
 */
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import pg from "pg";
import { afterwards } from "./on-demand.ts";

/** As the application's role: it may create databases, and is no superuser. */
export function postgresUrl(): string {
  return address("NEVERTWICE_TEST_POSTGRES");
}

/** As a superuser, where we started the server; as the given user elsewhere. */
export function postgresAdminUrl(): string {
  return process.env.NEVERTWICE_TEST_POSTGRES_ADMIN ?? postgresUrl();
}

/** The same PostgreSQL through PgBouncer in transaction mode. */
export function pgbouncerUrl(): string {
  return address("NEVERTWICE_TEST_PGBOUNCER");
}

/** A standalone Redis that syncs every write and evicts nothing. */
export function redisUrl(): string {
  return address("NEVERTWICE_TEST_REDIS");
}

/** Every node of a cluster of three primaries and three replicas. */
export function redisClusterNodes(): { host: string; port: number }[] {
  return address("NEVERTWICE_TEST_REDIS_CLUSTER")
    .split(",")
    .map((node) => {
      const { hostname, port } = new URL(`redis://${node}`);
      return { host: hostname, port: Number(port) };
    });
}

export interface FreshDatabase {
  readonly name: string;
  readonly url: string;
  readonly pgbouncerUrl: string;
  readonly adminUrl: string;
  /** For a caller that cannot leave it to the test run, such as a hook. */
  drop(): Promise<void>;
}

/**
 * An empty database, dropped when the file is over if called at its top level, or when the test is over if called in
 * one. In a hook, drop it yourself.
 */
export async function freshDatabase(): Promise<FreshDatabase> {
  const name = `test_${unique()}`;
  await query(`CREATE DATABASE ${name}`);
  // PgBouncer keeps sessions open on it, hence FORCE; only a superuser may end those of a test's other roles.
  // Sessions that are just saying goodbye get a moment first: ended by force, their clients would report it as an error.
  const drop = async () => {
    await query(untilNobodyIsOn(name), postgresAdminUrl());
    await query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`, postgresAdminUrl());
  };
  afterwards(drop);
  return {
    name,
    url: withPath(postgresUrl(), name),
    get pgbouncerUrl() {
      return withPath(pgbouncerUrl(), name);
    },
    adminUrl: withPath(postgresAdminUrl(), name),
    drop,
  };
}

/**
 * An empty Redis database that no other test file uses meanwhile: one per worker, and a worker runs one file at a time.
 * Emptied again afterwards. Scripts, functions and settings belong to the whole server: for those start your own.
 */
export async function flushableRedisDb(): Promise<string> {
  const url = withPath(redisUrl(), String(Number(process.env.VITEST_POOL_ID ?? 1)));
  await flush(url);
  afterwards(() => flush(url));
  return url;
}

/** For keys on the cluster, which has one database only and may not be emptied while others use it. */
export function freshPrefix(): string {
  return `test-${unique()}:`;
}

function address(variable: string): string {
  const value = process.env[variable];
  if (!value) throw new Error(`${variable} is not set: run the tests with npm test, or node scripts/services.mjs`);
  return value;
}

function unique(): string {
  return randomBytes(6).toString("hex");
}

function withPath(url: string, path: string): string {
  return Object.assign(new URL(url), { pathname: `/${path}` }).href;
}

function untilNobodyIsOn(database: string): string {
  return `DO $$ BEGIN FOR i IN 1..20 LOOP
    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '${database}');
    PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
  END LOOP; END $$`;
}

async function query(text: string, connectionString = postgresUrl()): Promise<void> {
  const client = new pg.Client({
    connectionString,
    connectionTimeoutMillis: 10_000,
    query_timeout: 30_000,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query(text);
  } finally {
    await client.end().catch(() => {});
  }
}

async function flush(url: string): Promise<void> {
  const client = new Redis(url, { retryStrategy: () => null, commandTimeout: 10_000 });
  client.on("error", () => {});
  try {
    await client.flushdb();
  } finally {
    client.disconnect();
  }
}
