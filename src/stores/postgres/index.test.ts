/** The conformance suite on every kind of client, direct and through PgBouncer in transaction mode. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import postgres from "postgres";
import { afterAll, describe, it } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import type { ConformanceOffer } from "../../testing/index.ts";
import { storeConformance } from "../../testing/index.ts";
import { type PostgresStoreOptions, postgresStore } from "./index.ts";

const database = await freshDatabase();

interface Kind {
  readonly name: string;
  readonly url: string;
  connect(url: string): Promise<{ options: PostgresStoreOptions; end(): Promise<void> }>;
}

const pools = new Map<string, pg.Pool>();
const sqls = new Map<string, postgres.Sql>();
afterAll(async () => {
  for (const pool of pools.values()) await pool.end();
  for (const sql of sqls.values()) await sql.end();
});

function poolOf(url: string): pg.Pool {
  const pool = pools.get(url) ?? new pg.Pool({ connectionString: url, max: 6 });
  pools.set(url, pool);
  return pool;
}

function sqlOf(url: string): postgres.Sql {
  const sql = sqls.get(url) ?? postgres(url, { max: 6, onnotice: () => {} });
  sqls.set(url, sql);
  return sql;
}

const nothing = async () => {};
const throughPool: Kind["connect"] = async (url) => ({ options: { pool: poolOf(url) }, end: nothing });
const throughSql: Kind["connect"] = async (url) => ({ options: { sql: sqlOf(url) }, end: nothing });
const throughClient: Kind["connect"] = async (url) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { options: { client }, end: () => client.end() };
};

const KINDS: readonly Kind[] = [
  { name: "postgres, pg Pool", url: database.url, connect: throughPool },
  { name: "postgres, pg Client", url: database.url, connect: throughClient },
  { name: "postgres, postgres.js", url: database.url, connect: throughSql },
  { name: "postgres, pg Pool through PgBouncer", url: database.pgbouncerUrl, connect: throughPool },
  { name: "postgres, postgres.js through PgBouncer", url: database.pgbouncerUrl, connect: throughSql },
];

const OFFERS: readonly ConformanceOffer[] = ["reopen", "corrupt", "transaction"];

for (const { name, url, connect } of KINDS) {
  storeConformance({ name, runner: { describe, it }, offers: OFFERS, open: () => ledger(url, connect) });
}

/** A schema of its own for each test: made by the store's own migration. */
async function ledger(url: string, connect: Kind["connect"]) {
  const schema = `t_${randomBytes(6).toString("hex")}`;
  const pool = poolOf(url);
  const ends: (() => Promise<void>)[] = [];
  const open = async () => {
    const { options, end } = await connect(url);
    ends.push(end);
    const store = postgresStore({ ...options, schema, listen: false });
    // The server's clock is known from the first answer on.
    await store.read([]);
    return store;
  };
  const store = await open();
  return {
    store,
    reopen: open,
    corrupt: async (key: string) => {
      await pool.query(`UPDATE ${schema}.records SET doc = 'x' || doc WHERE key = $1`, [Buffer.from(`\0${key}`)]);
    },
    transaction: async <T>(fn: (tx: unknown) => Promise<T>): Promise<T> => {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const answer = await fn(client);
        await client.query("COMMIT");
        return answer;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    dispose: async () => {
      await store.close();
      await Promise.all(ends.map((end) => end()));
      await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    },
  };
}
