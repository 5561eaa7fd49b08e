/** What a transaction has not committed reaches nobody but its owner: no cache, no waiter, no event, no other caller. */
import { join } from "node:path";
import { type EngineEvent, nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "./services/addresses.ts";
import { DatabaseSync } from "./support/database-sync.ts";
import { temporaryFolder } from "./support/each-store.ts";

type Database = SqliteHandle & InstanceType<typeof DatabaseSync>;

/** The application's own connection, which carries the ledger too. */
function shop(busyMs?: number) {
  const db = new DatabaseSync(join(temporaryFolder(), "app.db")) as Database;
  db.exec("PRAGMA journal_mode = WAL; CREATE TABLE orders (id TEXT)");
  const store = sqliteStore({ database: db, ...(busyMs !== undefined && { busyMs }) });
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  const events: EngineEvent[] = [];
  nt.on((event) => events.push(event));
  onTestFinished(async () => {
    await nt.close();
    db.close();
  });
  const runs: string[] = [];
  const place = nt.action("place_order", {
    key: ["id"],
    run: async ({ id }: { id: string }, _ctx) => {
      runs.push(id);
      return id;
    },
  });
  return { db, nt, store, events, runs, place };
}

/** Where repeats are the rule, calls look before they claim. */
async function mostlyRepeats({ db, place }: Pick<ReturnType<typeof shop>, "db" | "place">): Promise<void> {
  const elsewhere = nevertwice({ store: sqliteStore({ database: db }), sweep: false });
  const first = elsewhere.action("place_order", { key: ["id"], run: async ({ id }: { id: string }) => id });
  for (let i = 0; i < 40; i += 1) {
    await first({ id: `seen-${i}` });
    expect(await place.attempt({ id: `seen-${i}` })).toMatchObject({ replayed: true });
  }
  await elsewhere.close();
}

const turns = async (count = 20) => {
  for (let i = 0; i < count; i += 1) await new Promise((next) => setImmediate(next));
};

describe("sqliteStore({ database }): calls without tx while the connection has a transaction open", () => {
  it("an uncommitted success is not remembered: after the rollback the intent is not done", async () => {
    const { db, runs, place } = shop();
    await mostlyRepeats({ db, place });
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "a" }, { tx: db });
    const other = place.attempt({ id: "a" });
    await turns();
    db.exec("ROLLBACK");
    expect(await other).toMatchObject({ status: "done", replayed: false });
    expect(runs).toEqual(["a", "a"]);
    expect(await place.status({ id: "a" })).toMatchObject({ status: "done" });
  });

  it("status, list and stats answer with what is committed, after the transaction is over", async () => {
    const { db, place, store } = shop();
    await place({ id: "before" });
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "a" }, { tx: db });
    const asked = Promise.all([
      place.status({ id: "a" }),
      place.status({ id: "before" }),
      store.list({ limit: 10 }),
      store.stats(),
    ]);
    await turns();
    db.exec("ROLLBACK");
    const [absent, done, page, stats] = await asked;
    expect(absent).toMatchObject({ status: "absent" });
    expect(done).toMatchObject({ status: "done" });
    expect(page.items).toHaveLength(1);
    expect(stats.total).toBe(1);
  });

  it("a first call claims nothing inside somebody's transaction: it runs after that is over", async () => {
    const { db, runs, place } = shop();
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO orders VALUES ('x')");
    const call = place.attempt({ id: "a" });
    await turns();
    expect(runs).toEqual([]);
    db.exec("ROLLBACK");
    expect(await call).toMatchObject({ status: "done" });
    expect(await place.status({ id: "a" })).toMatchObject({ status: "done" });
  });

  it("a transaction that stays open too long is refused with what to do, and nothing runs", async () => {
    const { db, runs, place } = shop(30);
    db.exec("BEGIN IMMEDIATE");
    const message = /a transaction stayed open for too long.*pass it to the call as tx/;
    await expect(place.status({ id: "a" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", message });
    await expect(place({ id: "a" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", message });
    expect(runs).toEqual([]);
    db.exec("ROLLBACK");
    expect(await place({ id: "a" })).toBe("a");
  });

  it("a transaction that stays open is no outage: one try each, nothing unguarded, and calls work right after it", async () => {
    const { db, nt, store, events, runs, place } = shop(20);
    const rang: string[] = [];
    const alarm = nt.action("alarm", {
      key: ["id"],
      whenStoreDown: "run",
      run: async ({ id }: { id: string }) => void rang.push(id),
    });
    await place({ id: "first" });
    let writes = 0;
    const write = store.write.bind(store);
    store.write = (puts) => {
      writes += 1;
      return write(puts);
    };
    db.exec("BEGIN IMMEDIATE");
    const refused = { code: "STORE_UNAVAILABLE", message: /pass it to the call as tx/ };
    for (let i = 0; i < 8; i += 1) await expect(place({ id: `alone-${i}` })).rejects.toMatchObject(refused);
    expect(writes).toBeLessThanOrEqual(8);
    writes = 0;
    const many = await Promise.allSettled(Array.from({ length: 10 }, (_, i) => place({ id: `many-${i}` })));
    expect(many.map(({ status }) => status)).toEqual(many.map(() => "rejected"));
    // A batch that was refused as a whole is not split in search of the row to blame.
    expect(writes).toBeLessThan(10);
    await expect(alarm({ id: "a" })).rejects.toMatchObject(refused);
    expect(rang).toEqual([]);
    db.exec("COMMIT");
    expect(await place({ id: "later" })).toBe("later");
    expect(runs).toEqual(["first", "later"]);
    expect(events.filter(({ type }) => type === "store_down")).toEqual([]);
  });

  it("a worker reports a transaction that stays open as its error, and works on after it", async () => {
    const { db, nt, runs, place } = shop(20);
    await place.enqueue({ id: "a" });
    const worker = nt.worker();
    const errors: unknown[] = [];
    worker.on((event) => {
      if (event.type === "error") errors.push(event.error);
    });
    db.exec("BEGIN IMMEDIATE");
    await worker.tick().catch((error: unknown) => errors.push(error));
    expect(errors[0]).toMatchObject({ message: expect.stringMatching(/a transaction stayed open for too long/) });
    expect(runs).toEqual([]);
    db.exec("COMMIT");
    await worker.tick();
    expect(runs).toEqual(["a"]);
  });

  it("a ledger that a rolled back transaction has made is made again", async () => {
    const { db, place } = shop();
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "a" }, { tx: db });
    const asked = place.status({ id: "a" });
    await turns();
    db.exec("ROLLBACK");
    expect(await asked).toMatchObject({ status: "absent" });
    expect(await place({ id: "a" })).toBe("a");
  });
});

describe("inside the caller's transaction", () => {
  it("status with tx sees what the transaction wrote; after a rollback it is gone", async () => {
    const { db, place } = shop();
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "a" }, { tx: db });
    expect(await place.status({ id: "a" }, { tx: db })).toMatchObject({ status: "done", result: "a" });
    db.exec("ROLLBACK");
    expect(await place.status({ id: "a" })).toMatchObject({ status: "absent" });
  });

  it("a savepoint that is rolled back takes its call along, though the transaction commits", async () => {
    const { db, runs, place } = shop();
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "kept" }, { tx: db });
    db.exec("SAVEPOINT mine");
    await place({ id: "undone" }, { tx: db });
    db.exec("ROLLBACK TO mine; RELEASE mine");
    db.exec("COMMIT");
    expect(await place.status({ id: "kept" })).toMatchObject({ status: "done" });
    expect(await place.status({ id: "undone" })).toMatchObject({ status: "absent" });
    expect(await place.attempt({ id: "undone" })).toMatchObject({ status: "done", replayed: false });
    expect(runs).toEqual(["kept", "undone", "undone"]);
  });

  it("events about it say that they are about a transaction, and no other event is told", async () => {
    const { db, nt, events, place } = shop();
    const mail = nt.action("mail", { key: ["id"], run: async ({ id }: { id: string }) => id });
    db.exec("BEGIN IMMEDIATE");
    await place({ id: "a" }, { tx: db });
    await place({ id: "a" }, { tx: db });
    await mail.enqueue({ id: "m" }, { tx: db });
    await nt.once("hello", ["x"], () => 1, { tx: db });
    db.exec("ROLLBACK");
    expect(events.filter(({ type }) => type !== "warning")).toMatchObject([
      { type: "in_transaction", action: "place_order", what: "executed" },
      { type: "in_transaction", action: "place_order", what: "replayed" },
      { type: "in_transaction", action: "mail", what: "enqueued" },
      { type: "in_transaction", action: "hello", what: "executed" },
    ]);
  });

  it("a worker finds what was enqueued in a transaction soon after its commit, and nothing after a rollback", async () => {
    const { db, nt, runs, place } = shop();
    const worker = nt.worker({ actions: ["place_order"] });
    await worker.start();
    for (const [id, end] of [
      ["rolled-back", "ROLLBACK"],
      ["committed", "COMMIT"],
    ] as const) {
      db.exec("BEGIN IMMEDIATE");
      await place.enqueue({ id }, { tx: db });
      await turns();
      db.exec(end);
    }
    await expect.poll(() => runs).toEqual(["committed"]);
    expect(await place.status({ id: "rolled-back" })).toMatchObject({ status: "absent" });
  });

  it("resolve takes no tx, and says so", async () => {
    const { db, place } = shop();
    const decision = { as: "done", by: "me", reason: "seen" } as const;
    await expect(place.resolve({ id: "a" }, decision, { tx: db })).rejects.toMatchObject({
      code: "CONFIG",
      message: /takes no tx/,
    });
  });
});

describe("PostgreSQL, a pg client's transaction", () => {
  it("others see nothing of it until it commits, and nothing after a rollback; no event but in_transaction is told", async () => {
    const { url } = await freshDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const nt = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const events: EngineEvent[] = [];
    nt.on((event) => events.push(event));
    const place = nt.action("place_order", { key: ["id"], run: async ({ id }: { id: string }, _ctx) => id });
    for (const end of ["ROLLBACK", "COMMIT"] as const) {
      await client.query("BEGIN");
      await place({ id: "a" }, { tx: client });
      await client.query("SAVEPOINT mine");
      await place({ id: "undone" }, { tx: client });
      await client.query("ROLLBACK TO mine");
      expect(await place.status({ id: "a" }, { tx: client })).toMatchObject({ status: "done", result: "a" });
      expect(await place.status({ id: "undone" }, { tx: client })).toMatchObject({ status: "absent" });
      expect(await place.status({ id: "a" })).toMatchObject({ status: "absent" });
      await client.query(end);
      const after = { ROLLBACK: "absent", COMMIT: "done" }[end];
      expect(await place.status({ id: "a" })).toMatchObject({ status: after });
      expect(await place.status({ id: "undone" })).toMatchObject({ status: "absent" });
    }
    expect(new Set(events.map(({ type }) => type))).toEqual(new Set(["in_transaction"]));
    expect(await place.attempt({ id: "a" })).toMatchObject({ status: "done", replayed: true });
  });
});
