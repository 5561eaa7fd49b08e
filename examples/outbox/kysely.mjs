// The outbox in a transaction of Kysely.
import { Kysely, PostgresDialect, sql } from "kysely";
import pg from "pg";
import { confirmOrder, workOff } from "./shop.mjs";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
await sql`CREATE TABLE orders (id integer)`.execute(db);

const order = (id, declined = false) =>
  db.transaction().execute(async (tx) => {
    await tx.insertInto("orders").values({ id }).execute();
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await db.destroy();

// → order 2 rolled back: card declined
// → mail for order 1
