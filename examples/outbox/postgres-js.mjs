// The outbox in a transaction of postgres.js.
import postgres from "postgres";
import { confirmOrder, workOff } from "./shop.mjs";

const sql = postgres(process.env.DATABASE_URL, { onnotice: () => {} });
await sql`CREATE TABLE orders (id integer)`;

const order = (id, declined = false) =>
  sql.begin(async (tx) => {
    await tx`INSERT INTO orders (id) VALUES (${id})`;
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await sql.end();

// → order 2 rolled back: card declined
// → mail for order 1
