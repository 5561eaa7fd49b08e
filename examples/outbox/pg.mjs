// The outbox in a transaction of pg (node-postgres).
import pg from "pg";
import { confirmOrder, workOff } from "./shop.mjs";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await pool.query("CREATE TABLE orders (id integer)");

async function order(id, after = async () => {}) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO orders (id) VALUES ($1)", [id]);
    await confirmOrder.enqueue({ orderId: id }, { tx: client });
    await after();
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    console.log(`order ${id} rolled back: ${error.message}`);
  } finally {
    client.release();
  }
}

await order(1);
await order(2, async () => {
  throw new Error("card declined");
});
await workOff();
await pool.end();

// → order 2 rolled back: card declined
// → mail for order 1
