// The outbox in a transaction of Knex.
import createKnex from "knex";
import { confirmOrder, workOff } from "./shop.mjs";

const knex = createKnex({ client: "pg", connection: process.env.DATABASE_URL });
await knex.schema.createTable("orders", (table) => table.integer("id"));

const order = (id, declined = false) =>
  knex.transaction(async (tx) => {
    await tx("orders").insert({ id });
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await knex.destroy();

// → order 2 rolled back: card declined
// → mail for order 1
