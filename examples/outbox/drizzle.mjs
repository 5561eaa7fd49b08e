// The outbox in a transaction of Drizzle.
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable } from "drizzle-orm/pg-core";
import pg from "pg";
import { confirmOrder, workOff } from "./shop.mjs";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const db = drizzle(pool);
const orders = pgTable("orders", { id: integer("id") });
await db.execute("CREATE TABLE orders (id integer)");

const order = (id, declined = false) =>
  db.transaction(async (tx) => {
    await tx.insert(orders).values({ id });
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await pool.end();

// → order 2 rolled back: card declined
// → mail for order 1
