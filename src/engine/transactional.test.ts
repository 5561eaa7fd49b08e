import { join } from "node:path";
import { type Nevertwice, nevertwice, notSent, refused } from "nevertwice";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { openMemory, temporaryFolder } from "../../test/support/each-store.ts";

type Database = SqliteHandle & InstanceType<typeof DatabaseSync>;

interface Order {
  id: number;
}

/** An application's own database with its own connection, and a ledger in the same file. */
function shop(connection: "own-file" | "same-handle" = "own-file") {
  const path = join(temporaryFolder(), "app.db");
  const db = new DatabaseSync(path) as Database;
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE orders (id INTEGER)");
  const store = connection === "own-file" ? sqliteStore({ path }) : sqliteStore({ database: db });
  const nt = nevertwice({ store, sweep: false });
  onTestFinished(async () => {
    await nt.close();
    db.close();
  });
  const orders = () => (db.prepare("SELECT id FROM orders ORDER BY id").all() as { id: number }[]).map((row) => row.id);
  const insert = (id: number) => db.prepare("INSERT INTO orders (id) VALUES (?)").run(id);
  return { path, db, nt, orders, insert };
}

async function transaction<T>(db: SqliteHandle, work: () => Promise<T>, end: "COMMIT" | "ROLLBACK" = "COMMIT") {
  db.exec("BEGIN IMMEDIATE");
  try {
    return await work();
  } finally {
    db.exec(end);
  }
}

const placing = (nt: Nevertwice, insert: (id: number) => unknown) =>
  nt.action("place_order", {
    key: ["id"],
    run: async ({ id }: Order) => {
      insert(id);
      return { placed: id };
    },
  });

it("O9: a run in a transaction, where no heartbeat can be sent, that takes more than a third of its lease is warned about", async () => {
  const { db, nt, insert } = shop();
  const codes: string[] = [];
  nt.on((event) => event.type === "warning" && codes.push(event.code));
  const slow = nt.action("place_slowly", {
    key: ["id"],
    lease: 90,
    run: async ({ id }: Order, _ctx) => {
      await new Promise((done) => setTimeout(done, id));
      insert(id);
    },
  });
  await transaction(db, () => slow({ id: 60 }, { tx: db }));
  expect(codes).toEqual(["LEASE_SHORT"]);
});

describe.each(["own-file", "same-handle"] as const)("tx: the caller's own transaction (%s)", (connection) => {
  it("commit: row and record are there together, and a repeat replays", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const place = placing(nt, insert);
    expect(await transaction(db, () => place.attempt({ id: 1 }, { tx: db }))).toMatchObject({
      status: "done",
      replayed: false,
      result: { placed: 1 },
    });
    expect(await transaction(db, () => place.attempt({ id: 1 }, { tx: db }))).toMatchObject({ replayed: true });
    expect(await place.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: true });
    expect(orders()).toEqual([1]);
  });

  it("O4: check runs before the claim, with the transaction in its context; what it or refused() throws leaves no record", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const sold = new Error("sold out");
    const got: unknown[] = [];
    const place = nt.action("place_order", {
      key: ["id"],
      check: ({ id }: Order, ctx) => {
        got.push(ctx.tx);
        if (id === 1) throw sold;
      },
      run: async ({ id }: Order) => {
        insert(id);
        if (id === 2) throw refused(sold);
        return id;
      },
    });
    await transaction(db, async () => {
      await expect(place({ id: 1 }, { tx: db })).rejects.toBe(sold);
      await expect(place.enqueue({ id: 1 }, { tx: db })).rejects.toBe(sold);
      await expect(place({ id: 2 }, { tx: db })).rejects.toBe(sold);
      expect(await place({ id: 3 }, { tx: db })).toBe(3);
      expect(await place.attempt({ id: 3 }, { tx: db })).toMatchObject({ replayed: true });
      await place.enqueueMany([{ id: 4 }, { id: 5 }], { tx: db });
    });
    expect(orders()).toEqual([3]);
    expect(got).toEqual([db, db, db, db, db, db]);
    for (const id of [1, 2]) expect(await place.status({ id })).toMatchObject({ status: "absent" });
    expect(await place.status({ id: 4 })).toMatchObject({ status: "queued" });
  });

  it("F35: rollback: no row, no record, and the next call runs", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const place = placing(nt, insert);
    await transaction(db, () => place({ id: 1 }, { tx: db }), "ROLLBACK");
    expect(orders()).toEqual([]);
    expect(await place.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await transaction(db, () => place.attempt({ id: 1 }, { tx: db }))).toMatchObject({ replayed: false });
    expect(orders()).toEqual([1]);
  });

  it("an error in run takes its own writes back and leaves the transaction usable", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const broken = new Error("stock is empty");
    const place = nt.action("place_order", {
      key: ["id"],
      run: async ({ id }: Order): Promise<void> => {
        insert(id);
        throw broken;
      },
    });
    await transaction(db, async () => {
      await expect(place({ id: 1 }, { tx: db })).rejects.toBe(broken);
      insert(2);
    });
    expect(orders()).toEqual([2]);
    expect(await place.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await transaction(db, () => place.attempt({ id: 1 }, { tx: db }))).toMatchObject({
      status: "failed",
      final: false,
      error: broken,
    });
  });

  it("F2: a conflict in a transaction runs nothing", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const place = nt.action("place_order", { key: ["id"], run: async (o: Order & { n: number }) => insert(o.id) });
    await transaction(db, () => place({ id: 1, n: 1 }, { tx: db }));
    const outcome = await transaction(db, () => place.attempt({ id: 1, n: 2 }, { tx: db }));
    expect(outcome).toMatchObject({ status: "conflict", differs: ["n"] });
    expect(orders()).toEqual([1]);
  });

  it("several calls at once in one transaction: each is done or failed by itself", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const place = nt.action("place_order", {
      key: ["id"],
      run: async ({ id }: Order) => {
        insert(id);
        await new Promise((done) => setTimeout(done, id === 1 ? 20 : 5));
        if (id % 2 === 1) throw notSent(new Error("odd"));
        return id;
      },
    });
    const outcomes = await transaction(db, () =>
      Promise.all([1, 2, 3, 4].map((id) => place.attempt({ id }, { tx: db }))),
    );
    expect(outcomes.map((one) => one.status)).toEqual(["failed", "done", "failed", "done"]);
    expect(orders()).toEqual([2, 4]);
    const kept = await Promise.all([1, 2, 3, 4].map((id) => place.status({ id })));
    expect(kept.map((one) => one.status)).toEqual(["absent", "done", "absent", "done"]);
  });

  it("one intent twice at once in one transaction: once", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const place = placing(nt, insert);
    const outcomes = await transaction(db, () => Promise.all([1, 1, 1].map((id) => place.attempt({ id }, { tx: db }))));
    expect(outcomes.filter((one) => one.status === "done" && !one.replayed)).toHaveLength(1);
    expect(orders()).toEqual([1]);
  });

  it("an action inside an action, both in the transaction: the inner one's fate is its own", async () => {
    const { db, nt, orders, insert } = shop(connection);
    const inner = placing(nt, insert);
    const outer = nt.action("checkout", {
      key: ["id"],
      run: async ({ id }: Order): Promise<void> => {
        await inner({ id }, { tx: db });
        if (id === 1) throw new Error("payment failed");
      },
    });
    await transaction(db, async () => {
      await outer.attempt({ id: 1 }, { tx: db });
      await outer.attempt({ id: 2 }, { tx: db });
    });
    expect(orders()).toEqual([2]);
    expect(await inner.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await inner.status({ id: 2 })).toMatchObject({ status: "done" });
  });
});

describe("tx is refused", () => {
  it("on a store without transactions", async () => {
    const { nt } = openMemory();
    const place = nt.action("place", { run: async (_order: Order) => 1 });
    await expect(place({ id: 1 }, { tx: {} })).rejects.toThrow(/memory store has no transactions to share/);
  });

  it("when the connection has no transaction open", async () => {
    const { db, nt, orders, insert } = shop();
    await expect(placing(nt, insert)({ id: 1 }, { tx: db })).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringContaining("no transaction open"),
    });
    expect(orders()).toEqual([]);
  });

  it.each(["says it", "cannot say it"])("by every entry, when the connection has none open and %s", async (kind) => {
    const { db, nt, insert } = shop();
    const place = placing(nt, insert);
    const silent = { prepare: (sql: string) => db.prepare(sql), exec: (sql: string) => db.exec(sql) };
    const tx = kind === "says it" ? db : silent;
    const drip = nt.sequence("drip", ["a"], { run: async () => {} });
    const refused = { code: "CONFIG", message: expect.stringContaining("no transaction open") };
    await expect(place.enqueue({ id: 1 }, { tx })).rejects.toMatchObject(refused);
    await expect(place.enqueueMany([{ id: 1 }], { tx })).rejects.toMatchObject(refused);
    await expect(place.status({ id: 1 }, { tx })).rejects.toMatchObject(refused);
    await expect(place({ id: 1 }, { tx })).rejects.toMatchObject(refused);
    await expect(drip.start("ana", undefined, { tx })).rejects.toMatchObject(refused);
    expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
    await transaction(db, () => place.enqueue({ id: 1 }, { tx }));
    expect(await place.status({ id: 1 })).toMatchObject({ status: "queued" });
  });

  it("when the transaction ends while the inputs of enqueueMany are still coming", async () => {
    const { db, nt, insert } = shop();
    const place = placing(nt, insert);
    db.exec("BEGIN IMMEDIATE");
    const inputs = async function* () {
      for (let id = 1; id <= 600; id += 1) {
        if (id === 550) db.exec("ROLLBACK");
        yield { id };
      }
    };
    await expect(place.enqueueMany(inputs(), { tx: db })).rejects.toMatchObject({ code: "CONFIG" });
    expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
  });

  it("a connection of another SQLite library is refused: two of them on one file break each other's locks", async () => {
    const { nt, db } = shop();
    const foreign = {
      isTransaction: true,
      exec: (sql: string) => db.exec(sql),
      prepare: (sql: string) =>
        sql.includes("sqlite_source_id")
          ? { run: () => ({ changes: 0 }), all: () => [{ id: "another" }] }
          : db.prepare(sql),
    };
    const order = nt.action("order", { key: ["id"], run: async (_order: Order) => "never" });
    await expect(order({ id: 1 }, { tx: foreign })).rejects.toThrow(
      /another SQLite library.*sqliteStore\(\{ database: db \}\)/,
    );
  });

  it("when it is on another file", async () => {
    const { nt, insert, orders } = shop();
    const other = new DatabaseSync(join(temporaryFolder(), "other.db")) as Database;
    onTestFinished(() => other.close());
    await transaction(other, () =>
      expect(placing(nt, insert)({ id: 1 }, { tx: other })).rejects.toThrow(/could not commit together/),
    );
    expect(orders()).toEqual([]);
  });

  it("when it is not a connection at all, or goes with resend", async () => {
    const { db, nt, insert, orders } = shop();
    const place = placing(nt, insert);
    await expect(place({ id: 1 }, { tx: "tx" })).rejects.toThrow(/not a SQLite connection/);
    await transaction(db, () =>
      expect(place.resend({ id: 1 }, { by: "ana", reason: "again", tx: db })).rejects.toMatchObject({ code: "CONFIG" }),
    );
    expect(orders()).toEqual([]);
  });
});

describe("a ledger on the application's own connection", () => {
  it("G1: a call without tx waits for an open transaction, whose rollback must not take its claim back", async () => {
    const { db, nt, orders } = shop("same-handle");
    let runs = 0;
    const send = nt.action("send", { key: ["id"], run: async (_order: Order) => ++runs });
    await nt.once("ledger is there", [1], () => 1);
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO orders (id) VALUES (1)");
    const calls = [send({ id: 1 }), send({ id: 2 })];
    await new Promise((done) => setTimeout(done, 30));
    expect(runs).toBe(0);
    db.exec("ROLLBACK");
    await Promise.all(calls);
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: true });
    expect(runs).toBe(2);
    expect(orders()).toEqual([]);
  });

  it("a transaction that never ends is an error, not a hang", async () => {
    const path = join(temporaryFolder(), "app.db");
    const db = new DatabaseSync(path) as Database;
    const nt = nevertwice({ store: sqliteStore({ database: db, busyMs: 20 }), sweep: false });
    db.exec("BEGIN IMMEDIATE");
    await expect(nt.once("x", [1], () => 1)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    db.exec("ROLLBACK");
    await nt.close();
    db.close();
  });
});
