/** A statement has a session of the pool to itself, and gives it back with its answer. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { nevertwice } from "nevertwice";
import type pg from "pg";
import { expect, it } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { pooledLedger } from "../../../../test/support/pooled-ledger.ts";

it("is back in the pool after the answer", async () => {
  const { pool, store } = await pooledLedger(3);
  await Promise.all([store.read(["a"]), store.read(["b"]), store.read(["c"])]);
  expect(pool.idleCount).toBe(pool.totalCount);
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

it("F30: one that broke is closed, and another is taken", async () => {
  const { pool, store } = await pooledLedger(2);
  const held: pg.PoolClient[] = [];
  pool.on("acquire", (client) => held.push(client));
  const reading = store.read(["a"]);
  await expect.poll(() => held.length).toBe(1);
  held[0]?.emit("error", new Error("the connection was lost"));
  await reading.catch(() => {});
  expect(await store.read(["b"])).toEqual([null]);
  expect(held[1]).not.toBe(held[0]);
});

it("of the ledger's own pool: a program that forgets close() still ends", async () => {
  const { url } = await freshDatabase();
  const script = `import { nevertwice } from "nevertwice";
    const nt = nevertwice({ store: ${JSON.stringify(url)} });
    console.log(await nt.action("a", { key: ["id"], run: async () => "ran" })({ id: 1 }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  expect(stdout.trim()).toBe("ran");
});
