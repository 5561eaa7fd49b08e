/** What pg's clients ask of whoever uses them: one query at a time, and a listener for errors at every moment. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";

it("thirty stores on one pool, one for each tenant, listen to it once", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  onTestFinished(() => pool.end());
  const stores = Array.from({ length: 30 }, (_, n) => postgresStore({ pool, tenant: `tenant-${n}` }));
  for (const store of stores) expect(await store.read(["nt1_a"])).toEqual([null]);
  expect(pool.listenerCount("connect")).toBe(1);
  for (const store of stores) await store.close();
});

it("a single client is asked one thing at a time, whatever is under way at once", async () => {
  const { url } = await freshDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  let asked = 0;
  let most = 0;
  const query = client.query.bind(client) as (
    query: pg.Query & { callback: (...answer: unknown[]) => void },
  ) => unknown;
  client.query = ((one: Parameters<typeof query>[0]) => {
    asked += 1;
    most = Math.max(most, asked);
    const told = one.callback;
    one.callback = (...answer) => {
      asked -= 1;
      told(...answer);
    };
    return query(one);
  }) as never;
  const store = postgresStore({ client });
  const nt = nevertwice({ store, sweep: false });
  const send = nt.action("send", { key: ["id"], run: async ({ id }: { id: number }) => ({ sent: id }) });
  const calls = Array.from({ length: 300 }, (_, id) => send({ id: id % 150 }));
  const looks = [store.stats(), store.sweep({ limit: 10 }), store.list({ limit: 5 })];
  expect(await Promise.all(calls)).toHaveLength(300);
  await Promise.all(looks);
  await nt.close();
  expect({ most, asked }).toEqual({ most: 1, asked: 0 });
});

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

it("F30: a session ended in the packet that made it ready is a failed call, not the end of the process", async () => {
  const goodbye = "SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0";
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.end(
        Buffer.concat([
          message("R", Buffer.alloc(4)),
          message("Z", Buffer.from("I")),
          message("E", Buffer.from(goodbye)),
        ]),
      );
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const pool = new pg.Pool({ connectionString: `postgres://user:secret@127.0.0.1:${port}/app` });
  pool.on("error", () => {});
  onTestFinished(() => pool.end());
  const store = postgresStore({ pool, listen: false });
  // Without the listener vitest reports an uncaught exception, and fails the run.
  await expect(store.read(["nt1_x"])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});

/** A key of the ledger as another connection sees it: what is not committed is not there. */
async function committedStates(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query("SELECT state FROM nevertwice.records");
  await client.end();
  return rows.map(({ state }) => state);
}

it("a client with a transaction that has just begun is refused: no claim is made inside of it", async () => {
  const { url } = await freshDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  const nt = nevertwice({ store: postgresStore({ client, listen: false }), sweep: false });
  let sent = 0;
  const send = nt.action("send", {
    key: ["id"],
    run: async (_: { id: number }) => {
      sent += 1;
    },
  });
  await send({ id: 0 });
  // Not waited for: the client does not know yet that it is in a transaction.
  const begun = client.query("BEGIN");
  await expect(send({ id: 1 })).rejects.toMatchObject({ code: "CONFIG", message: /a transaction is open/ });
  await begun;
  await client.query("ROLLBACK");
  expect(sent).toBe(1);
  expect(await committedStates(url)).toEqual(["confirmed"]);
  await send({ id: 1 });
  expect(await committedStates(url)).toEqual(["confirmed", "confirmed"]);
  await nt.close();
});

it("a client that went back to its pool with an open transaction carries no claim", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  onTestFinished(() => pool.end());
  const nt = nevertwice({ store: postgresStore({ pool, listen: false }), sweep: false });
  const send = nt.action("send", { key: ["id"], run: async ({ id }: { id: number }) => id });
  await send({ id: 0 });
  const careless = await pool.connect();
  await careless.query("BEGIN");
  await careless.query("CREATE TABLE unfinished (id integer)");
  careless.release();
  await send({ id: 1 });
  expect(await committedStates(url)).toEqual(["confirmed", "confirmed"]);
  await nt.close();
});
