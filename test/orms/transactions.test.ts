/** An action inside the transactions of the ORMs, on a real server. They are installed here, not at the root. */
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleJs } from "drizzle-orm/postgres-js";
import createKnex from "knex";
import { CamelCasePlugin, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { DataSource } from "typeorm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeTransactions, INSERT, shop } from "../support/join-transaction.ts";
import { prismaClient } from "./prisma-client.ts";

const here = await shop();
// Drizzle knows a pool by its class, which is that of the pg beside it.
const pool = new pg.Pool({ connectionString: here.url, max: 8 });
const sql = postgres(here.url, { max: 4, onnotice: () => {} });
const kysely = new Kysely<{ orders: { id: number } }>({
  dialect: new PostgresDialect({ pool }),
  plugins: [new CamelCasePlugin()],
});
const knex = createKnex({ client: "pg", connection: here.url, pool: { min: 0, max: 4 } });
const typeorm = new DataSource({ type: "postgres", url: here.url });
const prisma = prismaClient(here.url);

beforeAll(() => typeorm.initialize());
afterAll(async () => {
  await typeorm.destroy();
  await knex.destroy();
  await sql.end();
  await prisma.end();
  await pool.end();
});

describeTransactions(here, [
  {
    name: "Kysely, with its CamelCasePlugin",
    transaction: (work) =>
      kysely.transaction().execute((tx) => work(tx, (id) => tx.insertInto("orders").values({ id }).execute())),
  },
  {
    name: "Drizzle on pg",
    transaction: (work) =>
      drizzlePg(pool).transaction((tx) => work(tx, (id) => tx.execute(`INSERT INTO orders (id) VALUES (${id})`))),
  },
  {
    name: "Drizzle on postgres.js",
    transaction: (work) =>
      drizzleJs(sql).transaction((tx) => work(tx, (id) => tx.execute(`INSERT INTO orders (id) VALUES (${id})`))),
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
    name: "Prisma's interactive transaction",
    transaction: (work) => prisma.client.$transaction((tx) => work(tx, (id) => tx.$executeRawUnsafe(INSERT, id))),
  },
]);

it("tx is refused when it is a manager or a knex without a transaction", async () => {
  const refused = (tx: unknown) => expect(here.place({ library: "none", id: 1 }, { tx })).rejects;
  await refused(typeorm.manager).toThrow(/no transaction open/);
  await refused(knex).toThrow(/no transaction open|not a PostgreSQL transaction/);
  expect(await here.orders()).toEqual([]);
});
