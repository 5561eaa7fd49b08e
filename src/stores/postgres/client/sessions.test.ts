/** A session that is kept for the next statement is nobody's loss: it goes back as soon as the event loop turns. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { expect, it } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { pooledLedger } from "../../../../test/support/pooled-ledger.ts";
import { pgPoolDriver } from "./pg.ts";

const turn = () => new Promise((turned) => setImmediate(turned));

it("is back in the pool after the event loop has turned", async () => {
  const { pool, store } = await pooledLedger(3);
  await Promise.all([store.read(["a"]), store.read(["b"]), store.read(["c"])]);
  await turn();
  await turn();
  expect(pool.idleCount).toBe(pool.totalCount);
});

it("is not checked out again by statements that follow on each other", async () => {
  const { pool, store } = await pooledLedger(3);
  await turn();
  await turn();
  let acquired = 0;
  pool.on("acquire", () => {
    acquired += 1;
  });
  for (const key of ["a", "b", "c"]) await store.read([key]);
  expect(acquired).toBe(1);
});

it("an effect has the pool's only connection, and so has what waits for it meanwhile", async () => {
  const { pool, store } = await pooledLedger(1);
  const nt = nevertwice({ store, sweep: false });
  const send = nt.action("send", {
    key: ["id"],
    run: async ({ id }: { id: number }) => (await pool.query("SELECT $1::int AS id", [id])).rows[0],
  });
  const others = Array.from({ length: 5 }, () => pool.query("SELECT 1"));
  expect(await Promise.all([1, 2, 3].map((id) => send({ id })))).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  expect(await Promise.all(others)).toHaveLength(5);
});

it("F30: one that breaks while it is kept is closed, and another is taken", async () => {
  const { pool, store } = await pooledLedger(2);
  const held: pg.PoolClient[] = [];
  pool.on("acquire", (client) => held.push(client));
  let removed = 0;
  pool.on("remove", () => {
    removed += 1;
  });
  await turn();
  await turn();
  await store.read(["a"]);
  expect(held).toHaveLength(1);
  held[0]?.emit("error", new Error("the connection was lost"));
  expect(await store.read(["b"])).toEqual([null]);
  expect(held).toHaveLength(2);
  expect(held[1]).not.toBe(held[0]);
  await expect.poll(() => removed).toBe(1);
});

it("of the ledger's own pool: kept while it is asked, back in the pool when nothing is, and gone with it", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 3, allowExitOnIdle: true });
  let acquired = 0;
  pool.on("acquire", () => {
    acquired += 1;
  });
  const driver = pgPoolDriver(pool, { timeoutMs: 10_000, owned: true });
  for (let i = 0; i < 3; i += 1) {
    await driver.query("SELECT 1");
    await turn();
    await turn();
  }
  expect(acquired).toBe(1);
  expect(pool.idleCount).toBe(0);
  await expect.poll(() => pool.idleCount, { timeout: 10_000 }).toBe(1);
  await driver.query("SELECT 1");
  expect(acquired).toBe(2);
  await driver.close();
  expect(pool.totalCount).toBe(0);
});

it("of the ledger's own pool: a program that forgets close() still ends", async () => {
  const { url } = await freshDatabase();
  const script = `import { nevertwice } from "nevertwice";
    const nt = nevertwice({ store: ${JSON.stringify(url)} });
    console.log(await nt.action("a", { key: ["id"], run: async () => "ran" })({ id: 1 }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  expect(stdout.trim()).toBe("ran");
});
