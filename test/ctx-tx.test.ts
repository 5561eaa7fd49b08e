/** `ctx.tx`: what `run` writes through the caller's transaction is there once, however often that transaction is rolled back. */
import { join } from "node:path";
import { type AttemptContext, currentAttempt, nevertwice, notSent } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "./services/addresses.ts";
import { DatabaseSync } from "./support/database-sync.ts";
import { temporaryFolder } from "./support/each-store.ts";

interface Order {
  readonly id: string;
}
const INSERT = "INSERT INTO orders (id) VALUES ($1)";

async function openPostgres() {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  await pool.query("CREATE TABLE orders (id text)");
  const warned: { code: string; message: string }[] = [];
  const nt = nevertwice({
    store: postgresStore<pg.PoolClient>({ pool, listen: false }),
    sweep: false,
    onWarning: (warning) => warned.push(warning),
  });
  onTestFinished(async () => {
    await nt.close();
    await pool.end();
  });
  const transaction = async (end: "COMMIT" | "ROLLBACK", work: (tx: pg.PoolClient) => Promise<unknown>) => {
    const tx = await pool.connect();
    try {
      await tx.query("BEGIN");
      await work(tx);
    } finally {
      await tx.query(end);
      tx.release();
    }
  };
  const rows = async () => (await pool.query("SELECT id FROM orders")).rows.length;
  return { nt, pool, warned, transaction, rows };
}

describe("ctx.tx on PostgreSQL", () => {
  it("two rollbacks and a commit leave one row, where run writes through ctx.tx", async () => {
    const { nt, warned, transaction, rows } = await openPostgres();
    const place = nt.action("place_order", {
      key: ["id"],
      run: async (order: Order, ctx) => {
        await ctx.tx?.query(INSERT, [order.id]);
        return order.id;
      },
    });
    for (const end of ["ROLLBACK", "ROLLBACK", "COMMIT", "COMMIT"] as const)
      await transaction(end, (tx) => place({ id: "A-1" }, { tx }));
    expect(await rows()).toBe(1);
    expect(warned).toEqual([]);
  });

  it("a run that takes no context writes past the transaction: three rows, and one warning that says what to do", async () => {
    const { nt, pool, warned, transaction, rows } = await openPostgres();
    const place = nt.action("place_order", { key: ["id"], run: (order: Order) => pool.query(INSERT, [order.id]) });
    for (const end of ["ROLLBACK", "ROLLBACK", "COMMIT"] as const)
      await transaction(end, (tx) => place({ id: "A-1" }, { tx }));
    expect(await rows()).toBe(3);
    expect(warned).toMatchObject([{ code: "TX_NOT_TAKEN", action: "place_order" }]);
    expect(warned[0]?.message).toMatch(
      /called with tx.*takes no context.*stays after a rollback.*run: \(input, ctx\) =>/s,
    );
  });

  it("prepare has it too, and so has code below by currentAttempt()", async () => {
    const { nt, transaction, rows } = await openPostgres();
    const insert = async (id: string) => {
      const tx = currentAttempt()?.tx as pg.PoolClient | undefined;
      await tx?.query(INSERT, [id]);
    };
    const place = nt.action("place_order", {
      key: ["id"],
      prepare: async (order: Order, ctx) => {
        await ctx.tx?.query(INSERT, [`${order.id} prepared`]);
        return order.id.length;
      },
      run: async (order, _ctx, length) => {
        await insert(order.id);
        return length;
      },
    });
    await transaction("ROLLBACK", (tx) => place({ id: "A-1" }, { tx }));
    expect(await rows()).toBe(0);
    await transaction("COMMIT", (tx) => place({ id: "A-1" }, { tx }));
    expect(await rows()).toBe(2);
  });

  it("once and the steps of a run have it, and are warned about where they do not take it", async () => {
    const { nt, warned, transaction, rows } = await openPostgres();
    for (const end of ["ROLLBACK", "COMMIT"] as const)
      await transaction(end, (tx) => nt.once("welcome", ["u1"], (ctx) => ctx.tx?.query(INSERT, ["once"]), { tx }));
    expect(await rows()).toBe(1);
    const step = (tx: pg.PoolClient) =>
      nt.run("book", "b1", (run) =>
        run.step("insert", (ctx) => (ctx.tx as pg.PoolClient).query(INSERT, ["step"]), { tx }),
      );
    await transaction("COMMIT", step);
    expect(await rows()).toBe(2);
    expect(warned.filter(({ code }) => code === "TX_NOT_TAKEN")).toEqual([]);
    await transaction("COMMIT", (tx) => nt.once("other", ["u1"], () => 1, { tx }));
    expect(warned).toMatchObject([{ code: "TX_NOT_TAKEN", action: "other" }]);
  });

  it("a call without tx, and a worker, have none", async () => {
    const { nt } = await openPostgres();
    const given: unknown[] = [];
    const place = nt.action("place_order", {
      key: ["id"],
      run: async (order: Order, ctx) => {
        given.push(ctx.tx, "tx" in ctx);
        return order.id;
      },
    });
    await place({ id: "A-1" });
    await place.enqueue({ id: "A-2" });
    await nt.worker().drain();
    expect(given).toEqual([undefined, true, undefined, true]);
  });

  it("a failure takes what run wrote back, and the transaction goes on", async () => {
    const { nt, transaction, rows } = await openPostgres();
    const place = nt.action("place_order", {
      key: ["id"],
      run: async (order: Order, ctx: AttemptContext<pg.PoolClient>) => {
        await ctx.tx?.query(INSERT, [order.id]);
        throw notSent(new Error("out of stock"));
      },
    });
    await transaction("COMMIT", async (tx) => {
      expect(await place.attempt({ id: "A-1" }, { tx })).toMatchObject({ status: "failed" });
      await tx.query(INSERT, ["mine"]);
    });
    expect(await rows()).toBe(1);
  });
});

describe("ctx.tx on SQLite", () => {
  it("two rollbacks and a commit leave one row, by the file and on a connection of one's own", async () => {
    for (const own of [false, true]) {
      const path = join(temporaryFolder(), "app.db");
      const db = new DatabaseSync(path) as SqliteHandle & InstanceType<typeof DatabaseSync>;
      db.exec("PRAGMA journal_mode = WAL; CREATE TABLE orders (id TEXT)");
      const warned: unknown[] = [];
      const store = sqliteStore(own ? { database: db } : { path });
      const nt = nevertwice({ store, sweep: false, onWarning: (warning) => warned.push(warning) });
      const place = nt.action("place_order", {
        key: ["id"],
        run: async (order: Order, ctx) => {
          ctx.tx?.prepare("INSERT INTO orders VALUES (?)").run(order.id);
          return order.id;
        },
      });
      for (const end of ["ROLLBACK", "ROLLBACK", "COMMIT", "COMMIT"]) {
        db.exec("BEGIN IMMEDIATE");
        await place({ id: "A-1" }, { tx: db });
        db.exec(end);
      }
      expect(db.prepare("SELECT * FROM orders").all()).toHaveLength(1);
      expect(warned).toEqual([]);
      await nt.close();
      db.close();
    }
  });
});
