// The outbox in a transaction of TypeORM.
import { DataSource, EntitySchema } from "typeorm";
import { confirmOrder, workOff } from "./shop.mjs";

const Order = new EntitySchema({ name: "orders", columns: { id: { type: Number, primary: true } } });
const source = new DataSource({
  type: "postgres",
  url: process.env.DATABASE_URL,
  entities: [Order],
  synchronize: true,
});
await source.initialize();

const order = (id, declined = false) =>
  source.transaction(async (tx) => {
    await tx.insert(Order, { id });
    await confirmOrder.enqueue({ orderId: id }, { tx });
    if (declined) throw new Error("card declined");
  });

await order(1);
await order(2, true).catch((error) => console.log(`order 2 rolled back: ${error.message}`));
await workOff();
await source.destroy();

// → order 2 rolled back: card declined
// → mail for order 1
