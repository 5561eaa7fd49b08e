/** An action inside the caller's own transaction, on the drivers themselves. test/orms does it with the ORMs. */
import pg from "pg";
import postgres from "postgres";
import { afterAll, describe, expect, it } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { describeTransactions, INSERT, type Insert, shop } from "../../../test/support/join-transaction.ts";

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

  const NO_TRANSACTION = { code: "CONFIG", message: expect.stringContaining("no transaction open") };

  it.each(["pg client of a pool", "pg client after COMMIT", "bare pg client", "pg client before 8.17", "adapter"])(
    "by every entry that takes it, without a BEGIN: %s",
    async (kind) => {
      const { nt } = here;
      const pooled = await pool.connect();
      const bare = new pg.Client({ connectionString: here.url });
      await bare.connect();
      if (kind === "pg client after COMMIT") await pooled.query("BEGIN; SELECT 1; COMMIT");
      const query = async (text: string, values: unknown[]) => (await bare.query(text, values)).rows;
      const silent = new Proxy(pooled, {
        get: (client, name) => (name === "getTransactionStatus" ? undefined : Reflect.get(client, name, client)),
      });
      const byKind: Record<string, unknown> = {
        "bare pg client": bare,
        "pg client before 8.17": silent,
        adapter: { query },
      };
      const tx = byKind[kind] ?? pooled;
      const input = { library: `none of ${kind}`, id: 1 };
      const tasks = nt.queue<{ kind: string }>(`tasks of ${kind}`, { key: ["kind"] });
      const drip = nt.sequence(`drip of ${kind}`, ["a", "b"], { run: async () => {} });
      const entries: Record<string, () => Promise<unknown>> = {
        call: () => place(input, { tx }),
        attempt: () => place.attempt(input, { tx }),
        enqueue: () => place.enqueue(input, { tx }),
        "enqueue in an order": () => place.enqueue(input, { tx, orderKey: "a" }),
        enqueueMany: () => place.enqueueMany([input, { ...input, id: 2 }], { tx }),
        "queue.add": () => tasks.add({ kind }, { tx }),
        "queue.addMany": () => tasks.addMany([{ kind }], { tx }),
        status: () => place.status(input, { tx }),
        once: () => nt.once("hello", [kind], async () => 1, { tx }),
        step: () => nt.run("walk", kind, (run) => run.step("one", async () => 1, { tx })),
        "sequence.start": () => drip.start("ana", undefined, { tx }),
      };
      for (const [entry, call] of Object.entries(entries))
        await expect.soft(call(), entry).rejects.toMatchObject(NO_TRANSACTION);
      pooled.release();
      await bare.end();
      expect(await place.status(input)).toMatchObject({ status: "absent" });
      expect(await place.status({ ...input, id: 2 })).toMatchObject({ status: "absent" });
      const { items } = await nt.store.list({ limit: 1_000 });
      expect(items.filter(({ record }) => record.action.includes(` of ${kind}`))).toEqual([]);
    },
  );

  it("when it ends while the inputs of enqueueMany are still coming", async () => {
    const client = await pool.connect();
    await client.query("BEGIN");
    const inputs = async function* () {
      for (let id = 1; id <= 600; id += 1) {
        if (id === 550) await client.query("ROLLBACK");
        yield { library: "ended", id };
      }
    };
    await expect(place.enqueueMany(inputs(), { tx: client })).rejects.toMatchObject(NO_TRANSACTION);
    client.release();
    expect(await place.status({ library: "ended", id: 1 })).toMatchObject({ status: "absent" });
    expect(await place.status({ library: "ended", id: 600 })).toMatchObject({ status: "absent" });
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
