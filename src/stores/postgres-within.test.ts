/** An action inside the caller's own transaction, with each library's real transactions on a real server. */
import { AsyncLocalStorage } from "node:async_hooks";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleJs } from "drizzle-orm/postgres-js";
import createKnex from "knex";
import { CamelCasePlugin, Kysely, PostgresDialect } from "kysely";
import { type Nevertwice, nevertwice, notSent } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import postgres from "postgres";
import { DataSource } from "typeorm";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { freshDatabase } from "../../test/services/addresses.ts";

const database = await freshDatabase();
const pool = new pg.Pool({ connectionString: database.url, max: 8 });
const sql = postgres(database.url, { max: 4, onnotice: () => {} });
const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] });
const knex = createKnex({ client: "pg", connection: database.url, pool: { min: 0, max: 4 } });
const typeorm = new DataSource({ type: "postgres", url: database.url });
const nt: Nevertwice = nevertwice({ store: postgresStore({ pool, listen: false }), sweep: false });

/** Runs SQL in the library's transaction, as an application would. */
type Insert = (id: number) => Promise<unknown>;

interface Library {
  readonly name: string;
  transaction<T>(work: (tx: unknown, insert: Insert) => Promise<T>): Promise<T>;
}

const INSERT = "INSERT INTO orders (id) VALUES ($1)";

const LIBRARIES: Library[] = [
  { name: "pg", transaction: (work) => pgTransaction((client) => work(client, (id) => client.query(INSERT, [id]))) },
  {
    name: "postgres.js",
    transaction: <T>(work: (tx: unknown, insert: Insert) => Promise<T>) =>
      sql.begin((tx) => work(tx, (id) => tx`INSERT INTO orders (id) VALUES (${id})`)) as Promise<T>,
  },
  {
    name: "Kysely, with its CamelCasePlugin",
    transaction: (work) =>
      kysely
        .transaction()
        .execute((tx) =>
          work(tx, (id) => (tx as Kysely<{ orders: { id: number } }>).insertInto("orders").values({ id }).execute()),
        ),
  },
  {
    name: "Drizzle on pg",
    transaction: (work) => {
      const db = drizzlePg(pool);
      return db.transaction((tx) => work(tx, (id) => tx.execute(`INSERT INTO orders (id) VALUES (${id})`)));
    },
  },
  {
    name: "Drizzle on postgres.js",
    transaction: (work) => {
      const db = drizzleJs(sql);
      return db.transaction((tx) => work(tx, (id) => tx.execute(`INSERT INTO orders (id) VALUES (${id})`)));
    },
  },
  {
    name: "Knex",
    transaction: (work) => knex.transaction((tx) => work(tx, (id) => tx("orders").insert({ id }))),
  },
  {
    name: "TypeORM's EntityManager",
    transaction: (work) => typeorm.transaction((tx) => work(tx, (id) => tx.query(INSERT, [id]))),
  },
  {
    name: "TypeORM's QueryRunner",
    transaction: async (work) => {
      const runner = typeorm.createQueryRunner();
      await runner.startTransaction();
      try {
        const answer = await work(runner, (id) => runner.query(INSERT, [id]));
        await runner.commitTransaction();
        return answer;
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    },
  },
  {
    name: "an adapter of one's own: { query(text, values) }",
    transaction: (work) =>
      pgTransaction((client) => {
        const query = async (text: string, values: unknown[]) => (await client.query(text, values)).rows;
        return work({ query }, (id) => query(INSERT, [id]));
      }),
  },
];

async function pgTransaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const answer = await work(client);
    await client.query("COMMIT");
    return answer;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

const prisma = await prismaClient();
LIBRARIES.push({
  name: "Prisma's interactive transaction",
  transaction: (work) => prisma.client.$transaction((tx) => work(tx, (id) => tx.$executeRawUnsafe(INSERT, id))),
});

beforeAll(async () => {
  await pool.query("CREATE TABLE orders (id integer)");
  await typeorm.initialize();
});
beforeEach(() => pool.query("TRUNCATE orders"));
afterAll(async () => {
  await nt.close();
  await typeorm.destroy();
  await knex.destroy();
  await sql.end();
  await prisma.end();
  await pool.end();
});

const orders = async () => (await pool.query("SELECT id FROM orders ORDER BY id")).rows.map(({ id }) => id as number);
/** Each call inserts in its own transaction, also when two run at once. */
const inserting = new AsyncLocalStorage<Insert>();
const place = nt.action("place_order", {
  key: ["library", "id"],
  run: async ({ id }: { library: string; id: number }) => {
    await inserting.getStore()?.(id);
    if (id === 13) throw notSent(new Error("out of stock"));
    return { placed: id };
  },
});

describe.each(LIBRARIES)("tx of $name", ({ name: library, transaction }) => {
  const call = (tx: unknown, insert: Insert, id: number) =>
    inserting.run(insert, () => place.attempt({ library, id }, { tx }));

  it("commit: row and record are there together, and a repeat replays", async () => {
    const first = await transaction((tx, insert) => call(tx, insert, 1));
    expect(first).toMatchObject({ status: "done", replayed: false, result: { placed: 1 } });
    expect(await transaction((tx, insert) => call(tx, insert, 1))).toMatchObject({ status: "done", replayed: true });
    expect(await place.attempt({ library, id: 1 })).toMatchObject({ status: "done", replayed: true });
    expect(await orders()).toEqual([1]);
  });

  it("F35: rollback: no row, no record, and the next call runs", async () => {
    const broken = new Error("the caller's own work failed");
    const rolledBack = transaction(async (tx, insert) => {
      expect(await call(tx, insert, 2)).toMatchObject({ status: "done" });
      throw broken;
    });
    await expect(rolledBack).rejects.toThrow(broken.message);
    expect(await orders()).toEqual([]);
    expect(await place.status({ library, id: 2 })).toMatchObject({ status: "absent" });
    expect(await transaction((tx, insert) => call(tx, insert, 2))).toMatchObject({ replayed: false });
    expect(await orders()).toEqual([2]);
  });

  it("an error in run takes its own writes back, by a savepoint, and leaves the transaction usable", async () => {
    await transaction(async (tx, insert) => {
      expect(await call(tx, insert, 13)).toMatchObject({ status: "failed", final: false });
      await insert(3);
    });
    expect(await orders()).toEqual([3]);
    expect(await place.status({ library, id: 13 })).toMatchObject({ status: "absent" });
  });

  it("two transactions at once on one intent: once", async () => {
    const outcomes = await Promise.all([1, 2].map(() => transaction((tx, insert) => call(tx, insert, 4))));
    expect(outcomes.filter((one) => one.status === "done" && !one.replayed)).toHaveLength(1);
    expect(await orders()).toEqual([4]);
  });
});

describe("tx is refused", () => {
  const refused = (tx: unknown) => expect(place({ library: "none", id: 1 }, { tx })).rejects;

  it("when it is no transaction: a pool, an sql, a client without BEGIN, a manager without a transaction", async () => {
    await refused(pool).toThrow(/tx is a Pool/);
    await refused(sql).toThrow(/outside a transaction/);
    await refused(typeorm.manager).toThrow(/no transaction open/);
    await refused(knex).toThrow(/no transaction open|not a PostgreSQL transaction/);
    await refused({}).toThrow(/not a PostgreSQL transaction/);
    await refused("tx").toThrow(/not a PostgreSQL transaction/);
    const client = await pool.connect();
    await refused(client).toMatchObject({ code: "CONFIG", message: expect.stringContaining("no transaction open") });
    client.release();
    expect(await orders()).toEqual([]);
  });

  it("when it is on another database: they could not commit together", async () => {
    const other = await freshDatabase();
    const client = new pg.Client({ connectionString: other.url });
    await client.connect();
    await client.query("BEGIN");
    await refused(client).toThrow(/could not commit together/);
    await client.end();
    expect(await orders()).toEqual([]);
  });
});

interface PrismaLike {
  $transaction<T>(
    work: (tx: { $executeRawUnsafe(text: string, ...values: unknown[]): Promise<number> }) => Promise<T>,
  ): Promise<T>;
  $disconnect(): Promise<void>;
}

/** Prisma's client is generated. Its engine is WebAssembly; only the migration engine, not used here, is downloaded. */
async function prismaClient(): Promise<{ client: PrismaLike; end(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-prisma-"));
  const modules = fileURLToPath(new URL("../../node_modules", import.meta.url));
  symlinkSync(modules, join(folder, "node_modules"));
  writeFileSync(
    join(folder, "schema.prisma"),
    'generator client {\n  provider = "prisma-client-js"\n  output = "./client"\n}\ndatasource db {\n  provider = "postgresql"\n}\nmodel orders {\n  id Int @id\n}\n',
  );
  const made = spawnSync(
    process.execPath,
    [join(modules, "prisma/build/index.js"), "generate", "--schema", "schema.prisma"],
    {
      cwd: folder,
      encoding: "utf8",
      env: {
        ...process.env,
        PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
        PRISMA_HIDE_UPDATE_MESSAGE: "1",
        CHECKPOINT_DISABLE: "1",
      },
    },
  );
  if (made.status !== 0) throw new Error(`prisma generate: ${made.stdout}${made.stderr}`);
  const require = createRequire(import.meta.url);
  const { PrismaClient } = require(join(folder, "client")) as { PrismaClient: new (options: object) => PrismaLike };
  const { PrismaPg } = require("@prisma/adapter-pg") as { PrismaPg: new (options: object) => unknown };
  const client = new PrismaClient({ adapter: new PrismaPg({ connectionString: database.url }) });
  return {
    client,
    end: async () => {
      await client.$disconnect();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
