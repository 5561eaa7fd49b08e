/** The ledger on one connection: pg runs one query at a time on it, and says so when it is handed two. */
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../test/services/addresses.ts";

it("a single client is asked one thing at a time, whatever is under way at once", async () => {
  const { url } = await freshDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  let asked = 0;
  let most = 0;
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
  client.query = (async (...args: unknown[]) => {
    asked += 1;
    most = Math.max(most, asked);
    try {
      return await query(...args);
    } finally {
      asked -= 1;
    }
  }) as never;
  const store = postgresStore({ client });
  const nt = nevertwice({ store, sweep: false });
  const send = nt.action("send", { key: ["id"], run: async ({ id }: { id: number }) => ({ sent: id }) });
  const calls = Array.from({ length: 300 }, (_, id) => send({ id: id % 150 }));
  const looks = [store.stats(), store.sweep({ limit: 10 }), store.list({ limit: 5 })];
  expect(await Promise.all(calls)).toHaveLength(300);
  await Promise.all(looks);
  await nt.close();
  expect(most).toBe(1);
});
