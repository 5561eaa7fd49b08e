/** An action inside the caller's own transaction: what must hold for the transactions of every library. */
import { AsyncLocalStorage } from "node:async_hooks";
import { nevertwice, notSent } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { freshDatabase } from "../services/addresses.ts";

/** Runs SQL in the library's transaction, as an application would. */
export type Insert = (id: number) => Promise<unknown>;

export interface Library {
  readonly name: string;
  transaction<T>(work: (tx: unknown, insert: Insert) => Promise<T>): Promise<T>;
}

export const INSERT = "INSERT INTO orders (id) VALUES ($1)";

/** A database with a table of orders, and the action that places one. For the top level of a test file. */
export async function shop() {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  const nt = nevertwice({ store: postgresStore({ pool, listen: false }), sweep: false });
  /** Each call inserts in its own transaction, also when two run at once. */
  const inserting = new AsyncLocalStorage<Insert>();
  /** The transactions that `run` was given. */
  const given: unknown[] = [];
  const place = nt.action("place_order", {
    key: ["library", "id"],
    run: async ({ id }: { library: string; id: number }, ctx) => {
      given.push(ctx.tx);
      await inserting.getStore()?.(id);
      if (id === 13) throw notSent(new Error("out of stock"));
      return { placed: id };
    },
  });
  const orders = async () => (await pool.query("SELECT id FROM orders ORDER BY id")).rows.map(({ id }) => id as number);

  beforeAll(() => pool.query("CREATE TABLE orders (id integer)"));
  beforeEach(() => pool.query("TRUNCATE orders"));
  afterAll(async () => {
    await nt.close();
    await pool.end();
  });
  return { url, pool, nt, inserting, given, place, orders };
}

type Shop = Awaited<ReturnType<typeof shop>>;

export function describeTransactions({ inserting, given, place, orders }: Shop, libraries: readonly Library[]): void {
  describe.each(libraries)("tx of $name", ({ name: library, transaction }) => {
    const call = (tx: unknown, insert: Insert, id: number) =>
      inserting.run(insert, () => place.attempt({ library, id }, { tx }));

    it("commit: row and record are there together, and a repeat replays", async () => {
      const first = await transaction((tx, insert) => call(tx, insert, 1));
      expect(first).toMatchObject({ status: "done", replayed: false, result: { placed: 1 } });
      expect(await transaction((tx, insert) => call(tx, insert, 1))).toMatchObject({ status: "done", replayed: true });
      expect(await place.attempt({ library, id: 1 })).toMatchObject({ status: "done", replayed: true });
      expect(await orders()).toEqual([1]);
    });

    it("F35: rollback: no row, no record, and the next call runs", async () => {
      const broken = new Error("the caller's own work failed");
      const rolledBack = transaction(async (tx, insert) => {
        expect(await call(tx, insert, 2)).toMatchObject({ status: "done" });
        throw broken;
      });
      await expect(rolledBack).rejects.toThrow(broken.message);
      expect(await orders()).toEqual([]);
      expect(await place.status({ library, id: 2 })).toMatchObject({ status: "absent" });
      expect(await transaction((tx, insert) => call(tx, insert, 2))).toMatchObject({ replayed: false });
      expect(await orders()).toEqual([2]);
    });

    it("an error in run takes its own writes back, by a savepoint, and leaves the transaction usable", async () => {
      await transaction(async (tx, insert) => {
        expect(await call(tx, insert, 13)).toMatchObject({ status: "failed", final: false });
        await insert(3);
      });
      expect(await orders()).toEqual([3]);
      expect(await place.status({ library, id: 13 })).toMatchObject({ status: "absent" });
    });

    it("B1 F35 enqueue: the intent commits with the rows, and goes with them at a rollback", async () => {
      await transaction(async (tx, insert) => {
        await insert(5);
        expect(await place.enqueue({ library, id: 5 }, { tx })).toMatchObject({ created: true, state: "pending" });
        expect(await place.enqueue({ library, id: 5 }, { tx })).toMatchObject({ created: false, state: "pending" });
        await place.enqueue({ library, id: 6 }, { tx, orderKey: library });
        await place.enqueueMany(
          [7, 8].map((id) => ({ library, id })),
          { tx, orderKey: library },
        );
      });
      const rolledBack = transaction(async (tx, insert) => {
        await insert(9);
        await place.enqueueMany(
          [9, 10, 11].map((id) => ({ library, id })),
          { tx },
        );
        throw new Error("the caller's own work failed");
      });
      await expect(rolledBack).rejects.toThrow("own work failed");
      expect(await orders()).toEqual([5]);
      const statuses = await Promise.all([5, 6, 7, 8, 9, 10, 11].map((id) => place.status({ library, id })));
      expect(statuses.map(({ status }) => status)).toEqual([...Array(4).fill("queued"), ...Array(3).fill("absent")]);
    });

    it("run has the very transaction as ctx.tx, and none where none was given", async () => {
      await transaction(async (tx, insert) => {
        await call(tx, insert, 21);
        expect(given.at(-1)).toBe(tx);
      });
      await inserting.run(
        async () => {},
        () => place({ library, id: 22 }),
      );
      expect(given.at(-1)).toBeUndefined();
    });

    it("two transactions at once on one intent: once", async () => {
      const outcomes = await Promise.all([1, 2].map(() => transaction((tx, insert) => call(tx, insert, 4))));
      expect(outcomes.filter((one) => one.status === "done" && !one.replayed)).toHaveLength(1);
      expect(await orders()).toEqual([4]);
    });
  });
}
