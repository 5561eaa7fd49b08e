/** What the ORMs make of a SQLSTATE, each in its own way: the same verdicts as from the driver itself. */
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleJs } from "drizzle-orm/postgres-js";
import createKnex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { DataSource } from "typeorm";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../src/index.ts";
import { freshDatabase } from "../services/addresses.ts";
import { prismaClient } from "./prisma-client.ts";

const { url } = await freshDatabase();
const pool = new pg.Pool({ connectionString: url, max: 4 });
const sql = postgres(url, { max: 2, onnotice: () => {} });
const kysely = new Kysely<{ orders: { id: number } }>({ dialect: new PostgresDialect({ pool }) });
const knex = createKnex({ client: "pg", connection: url, pool: { min: 0, max: 2 } });
const typeorm = await new DataSource({ type: "postgres", url }).initialize();
const prisma = prismaClient(url);
await pool.query(`
  CREATE TABLE orders (id integer PRIMARY KEY CHECK (id > 0));
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN IF NEW.id = 40001 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()`);
afterAll(async () => {
  await typeorm.destroy();
  await knex.destroy();
  await sql.end();
  await prisma.end();
  await pool.end();
});
beforeEach(() => pool.query("TRUNCATE orders"));

const INSERT = "INSERT INTO orders (id) VALUES ($1)";
const WAYS: Readonly<Record<string, (id: number) => Promise<unknown>>> = {
  "Drizzle on pg": (id) => drizzlePg(pool).execute(`INSERT INTO orders (id) VALUES (${id})`),
  "Drizzle on postgres.js": (id) => drizzleJs(sql).execute(`INSERT INTO orders (id) VALUES (${id})`),
  Kysely: (id) => kysely.insertInto("orders").values({ id }).execute(),
  Knex: (id) => knex("orders").insert({ id }),
  TypeORM: (id) => typeorm.query(INSERT, [id]),
  Prisma: (id) => prisma.client.orders.create({ data: { id } }),
  "Prisma, raw": (id) => prisma.client.$executeRawUnsafe(INSERT, id),
};

describe.each(Object.entries(WAYS))("SQLSTATE by %s", (_, insert) => {
  function action() {
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    return nt.action("order", {
      key: ["id"],
      wait: 0,
      run: async ({ id }: { id: number }) => {
        await insert(id);
        return "inserted";
      },
      exists: () => "there",
    });
  }

  it("a serialization failure is not sent, a unique violation is what exists answers, a check is refused", async () => {
    const order = action();
    expect(await order.attempt({ id: 40001 })).toMatchObject({ status: "failed", retryAt: expect.any(Number) });
    await pool.query(INSERT, [1]);
    expect(await order.attempt({ id: 1 })).toMatchObject({ status: "done", result: "there" });
    expect(await order.attempt({ id: 2 })).toMatchObject({ status: "done", result: "inserted" });
    const refused = await order.attempt({ id: -1 });
    expect(refused).toMatchObject({ status: "failed", final: false });
    expect(refused).not.toHaveProperty("retryAt");
  });
});
