/** An action inside the caller's own transaction, on the drivers themselves. test/orms does it with the ORMs. */
import pg from "pg";
import postgres from "postgres";
import { afterAll, describe, expect, it } from "vitest";
import { freshDatabase } from "../../test/services/addresses.ts";
import { describeTransactions, INSERT, type Insert, shop } from "../../test/support/join-transaction.ts";

const here = await shop();
const { pool, place, orders } = here;
const sql = postgres(here.url, { max: 4, onnotice: () => {} });
afterAll(() => sql.end());

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

describeTransactions(here, [
  { name: "pg", transaction: (work) => pgTransaction((client) => work(client, (id) => client.query(INSERT, [id]))) },
  {
    name: "postgres.js",
    transaction: <T>(work: (tx: unknown, insert: Insert) => Promise<T>) =>
      sql.begin((tx) => work(tx, (id) => tx`INSERT INTO orders (id) VALUES (${id})`)) as Promise<T>,
  },
  {
    name: "an adapter of one's own: { query(text, values) }",
    transaction: (work) =>
      pgTransaction((client) => {
        const query = async (text: string, values: unknown[]) => (await client.query(text, values)).rows;
        return work({ query }, (id) => query(INSERT, [id]));
      }),
  },
]);

describe("tx is refused", () => {
  const refused = (tx: unknown) => expect(place({ library: "none", id: 1 }, { tx })).rejects;

  it("when it is no transaction: a pool, an sql, a client without BEGIN", async () => {
    await refused(pool).toThrow(/tx is a Pool/);
    await refused(sql).toThrow(/outside a transaction/);
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
