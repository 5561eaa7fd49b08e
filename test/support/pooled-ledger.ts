/** A ledger of its own in the test PostgreSQL, on a pool that the test may ask as well. */
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";

export async function pooledLedger(max: number) {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max });
  // A test may end the sessions of an idle pool.
  pool.on("error", () => {});
  const store = postgresStore({ pool, listen: false });
  onTestFinished(async () => {
    await store.close();
    await pool.end();
  });
  await store.read(["x"]);
  return { pool, store };
}
