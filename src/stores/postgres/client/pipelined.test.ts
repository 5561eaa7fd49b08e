/** Pools that pipeline (pg 8.23 and later): a session is one statement's at a time all the same. */
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { nevertwice } from "../../../index.ts";
import { postgresStore } from "../index.ts";
import { pgPoolDriver } from "./pg.ts";

it("F16: a statement without an answer takes its session with it, and others do not wait for it", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4, pipeline: true } as pg.PoolConfig);
  const driver = pgPoolDriver(pool, { timeoutMs: 300, owned: true });
  onTestFinished(() => driver.close());
  const ask = (text: string) => driver.queryAgain?.(text, []);
  // Whether the server is reached without a pooler is found out with the first.
  await ask("SELECT 0::text AS c0");
  const sleeping = ask("SELECT pg_sleep(60)::text AS c0");
  const beside = ask("SELECT 1::text AS c0");
  const results = await Promise.allSettled([sleeping, beside]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  expect(await ask("SELECT 2::text AS c0")).toEqual([{ c0: "2" }]);
  await expect.poll(() => pool.totalCount).toBe(1);
});

it("F1: a crowd's calls run once each, and its repeats get the first results", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4, pipeline: true } as pg.PoolConfig);
  const nt = nevertwice({ store: postgresStore({ pool }), sweep: false });
  onTestFinished(async () => {
    await nt.close();
    await pool.end();
  });
  const runs = new Map<number, number>();
  const send = nt.action("send", {
    key: ["id"],
    run: async ({ id }: { id: number }) => {
      runs.set(id, (runs.get(id) ?? 0) + 1);
      return { id };
    },
  });
  const ids = Array.from({ length: 1_500 }, (_, id) => id);
  const calls = [...ids, ...ids].map((id) => send({ id }));
  expect(await Promise.all(calls)).toEqual([...ids, ...ids].map((id) => ({ id })));
  expect([...runs.values()].every((count) => count === 1)).toBe(true);
  expect(runs.size).toBe(1_500);
});
