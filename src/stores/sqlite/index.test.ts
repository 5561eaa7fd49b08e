import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import { sampleRecord, storeConformance } from "nevertwice/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../../test/support/database-sync.ts";
import { steeredClock, temporaryFolder } from "../../../test/support/each-store.ts";
import { openChecks } from "./checks.ts";
import { openFile } from "./file.ts";

type Database = SqliteHandle & InstanceType<typeof DatabaseSync>;
const connect = (path: string) => new DatabaseSync(path) as Database;
// Where the log's header counts how often it was begun anew (the file format of SQLite's WAL).
const CHECKPOINT_SEQUENCE = 12;
// Where the header of a database file has the size of its pages.
const PAGE_BYTES = 16;
const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

function damage(path: string, key: string): void {
  const db = connect(path);
  db.prepare("UPDATE nevertwice_records SET doc = replace(doc, '\"fence\":', '\"fence\": ') WHERE key = ?").run(key);
  db.close();
}

async function inTransaction<T>(db: Database, fn: (tx: unknown) => Promise<T>): Promise<T> {
  db.exec("BEGIN IMMEDIATE");
  try {
    const answer = await fn(db);
    db.exec("COMMIT");
    return answer;
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}

storeConformance({
  name: "sqlite, a file of its own",
  runner: { describe, it },
  offers: ["reopen", "advance", "corrupt", "transaction"],
  open: () => {
    const path = join(temporaryFolder(), "ledger.db");
    const clock = steeredClock();
    const store = sqliteStore({ path, clock });
    const connections: Database[] = [];
    return {
      store,
      reopen: () => sqliteStore({ path, clock }),
      advance: clock.advance,
      corrupt: (key) => damage(path, key),
      transaction: (fn) => {
        const db = connect(path);
        db.exec("PRAGMA busy_timeout = 5000");
        connections.push(db);
        return inTransaction(db, fn);
      },
      dispose: async () => {
        await store.close();
        for (const db of connections) db.close();
      },
    };
  },
});

storeConformance({
  name: "sqlite, the application's connection",
  runner: { describe, it },
  offers: ["advance", "corrupt", "transaction"],
  open: () => {
    const path = join(temporaryFolder(), "app.db");
    const db = connect(path);
    db.exec("PRAGMA journal_mode = WAL");
    const clock = steeredClock();
    const store = sqliteStore({ database: db, clock });
    return {
      store,
      advance: clock.advance,
      corrupt: (key) => damage(path, key),
      transaction: (fn) => inTransaction(db, fn),
      dispose: async () => {
        await store.close();
        db.close();
      },
    };
  },
});

function open(path = join(temporaryFolder(), "ledger.db")) {
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  return { path, store };
}

describe("F13: a ledger that is not what it was", () => {
  const used = async () => {
    const { path, store } = open();
    await store.write([put("nt1_a")]);
    await store.close();
    // Into the file itself: what is still in the write-ahead log survives any damage to the file.
    const db = connect(path);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    db.close();
    return path;
  };
  const refusal = async (path: string) => {
    const { store } = open(path);
    return store.read(["nt1_a"]).then(
      () => null,
      (error: Error & { code: string }) => error,
    );
  };

  it("a changed row is an error, never another record and never absent", async () => {
    const { path, store } = open();
    await store.write([put("nt1_a"), put("nt1_b")]);
    damage(path, "nt1_a");
    await expect(store.read(["nt1_a"])).rejects.toThrow(/does not match its checksum/);
    expect(await store.read(["nt1_b"])).toMatchObject([{ record: { key: "nt1_b" } }]);
    await expect(store.write([put("nt1_a")])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await store.inspect?.()).toContainEqual(expect.objectContaining({ name: "integrity", ok: false }));
  });

  it("removed, emptied or replaced: refused, and left as it is", async () => {
    const gone = await used();
    for (const suffix of ["", "-wal", "-shm"]) rmSync(gone + suffix, { force: true });
    expect(await refusal(gone)).toMatchObject({ code: "STORE_UNAVAILABLE", message: /is gone.*Restore the file/ });
    expect(existsSync(gone)).toBe(false);
    const emptied = await used();
    truncateSync(emptied, 0);
    expect(await refusal(emptied)).toMatchObject({ message: /is empty/ });
    const [one, other] = [await used(), await used()];
    writeFileSync(one, readFileSync(other));
    expect(await refusal(one)).toMatchObject({ message: /the file was replaced/ });
  });

  it("cut short, overwritten or not a database: refused, and not made anew", async () => {
    const cut = await used();
    truncateSync(cut, Math.floor(statSync(cut).size / 2));
    expect(await refusal(cut)).toMatchObject({ code: "STORE_UNAVAILABLE" });
    const text = await used();
    writeFileSync(text, "this is not a database".repeat(500));
    expect(await refusal(text)).toMatchObject({ code: "STORE_UNAVAILABLE", message: /damaged/ });
    expect(readFileSync(text, "utf8")).toContain("this is not a database");
  });

  it("removed under a running program: the next write is refused and nothing is run", async () => {
    const { path, store } = open();
    const nt = nevertwice({ store, sweep: false });
    await nt.once("x", [1], () => 1);
    for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
    await new Promise((done) => setTimeout(done, 260));
    let runs = 0;
    await expect(nt.once("x", [2], () => ++runs)).rejects.toThrow(/removed or replaced while this program had it open/);
    expect(runs).toBe(0);
  });
});

describe("durable settings", () => {
  it("F10: WAL and FULL are set on every open, whatever the file had before", async () => {
    const { path, store } = open();
    const before = connect(path);
    before.exec("PRAGMA journal_mode = DELETE; CREATE TABLE mine (a)");
    before.close();
    await store.write([put("nt1_a")]);
    expect(await store.inspect?.()).toMatchObject([
      { name: "file" },
      { name: "driver" },
      { name: "schema" },
      { name: "journal", value: "wal", ok: true },
      { name: "synchronous", value: "FULL", ok: true },
      { name: "integrity", ok: true },
      { name: "lease clock" },
    ]);
  });

  it("a new file has small pages; one that is there keeps its own", async () => {
    const pageBytes = (path: string) => readFileSync(path).readUInt16BE(PAGE_BYTES);
    const made = open();
    await made.store.write([put("nt1_a")]);
    expect(pageBytes(made.path)).toBe(2_048);
    const there = open();
    const before = connect(there.path);
    before.exec("PRAGMA page_size = 4096; CREATE TABLE mine (a)");
    before.close();
    const result = { json: JSON.stringify("x".repeat(20_000)) };
    await there.store.write([{ record: sampleRecord({ key: "nt1_a", result }), expected: null }]);
    expect(await there.store.read(["nt1_a"])).toMatchObject([{ record: { result } }]);
    expect(pageBytes(there.path)).toBe(4_096);
  });

  it.each([
    [/PRAGMA journal_mode = WAL/, "delete", /cannot use write-ahead logging/],
    [/^PRAGMA synchronous$/, 1, /runs with synchronous=1/],
  ])("a connection that answers %s with %s is refused, not believed", (pragma, answer, message) => {
    const path = join(temporaryFolder(), "ledger.db");
    const lying = (file: string): SqliteHandle => {
      const db = connect(file);
      return {
        exec: (sql) => db.exec(sql),
        close: () => db.close(),
        prepare: (sql) =>
          (pragma.test(sql)
            ? { run: () => ({ changes: 0 }), all: () => [{ value: answer }] }
            : db.prepare(sql)) as ReturnType<SqliteHandle["prepare"]>,
      };
    };
    const driver = { name: "node:sqlite", file: "node:sqlite", open: lying } as const;
    expect(() => openFile({ path, driver, busyMs: 100, checks: openChecks, autoCheckpoint: 0 })).toThrow(message);
  });

  it("an id file that cannot be put in place leaves no temporary file behind", () => {
    const folder = temporaryFolder();
    const path = join(folder, "ledger.db");
    const open = (file: string) => {
      // A folder under the name of the id file: nothing can be renamed over it.
      mkdirSync(join(`${file}.id`, "x"), { recursive: true });
      return connect(file);
    };
    const driver = { name: "node:sqlite", file: "node:sqlite", open } as const;
    expect(() => openFile({ path, driver, busyMs: 100, checks: openChecks, autoCheckpoint: 0 })).toThrow(
      /EISDIR|ENOTEMPTY/,
    );
    expect(readdirSync(folder).filter((name) => name.endsWith(".new"))).toEqual([]);
  });

  it("a passed connection without FULL is told by inspect, with what to do", async () => {
    const db = connect(join(temporaryFolder(), "app.db"));
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    const store = sqliteStore({ database: db });
    await store.read(["nt1_a"]);
    expect(await store.inspect?.()).toContainEqual(expect.objectContaining({ name: "synchronous", ok: false }));
    await store.close();
    db.close();
  });
});

describe("F46 schema", () => {
  it("a fresh file gets it beside the application's own tables, an existing one keeps its rows", async () => {
    const { path, store } = open();
    await store.write([put("nt1_a")]);
    await store.close();
    const again = open(path).store;
    expect(await again.read(["nt1_a"])).toMatchObject([{ record: { key: "nt1_a" } }]);
  });

  it("a newer ledger is refused and left untouched: as a file, as a connection, in a transaction", async () => {
    const { path, store } = open();
    await store.write([put("nt1_a")]);
    await store.close();
    const db = connect(path);
    onTestFinished(() => db.close());
    db.exec("UPDATE nevertwice_meta SET value = '99' WHERE name = 'schema_version'");
    await expect(open(path).store.read(["nt1_a"])).rejects.toMatchObject({
      code: "CONFIG",
      message: /newer nevertwice/,
    });
    await expect(sqliteStore({ database: db }).read(["nt1_a"])).rejects.toThrow(/newer nevertwice/);
    db.exec("BEGIN IMMEDIATE");
    expect(() => sqliteStore({ database: db }).within(db)).toThrow(/newer nevertwice/);
    db.exec("ROLLBACK");
    expect(db.prepare("SELECT value FROM nevertwice_meta WHERE name = 'schema_version'").all()).toEqual([
      { value: "99" },
    ]);
  });

  it("F12: ten connections at once on a file that is not there yet: one ledger, no claim lost or doubled", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const stores = Array.from({ length: 10 }, () => open(path).store);
    const results = await Promise.all(stores.map((store, n) => store.write([put("nt1_shared"), put(`nt1_own${n}`)])));
    expect(results.filter(([shared]) => shared?.ok)).toHaveLength(1);
    expect(results.every(([, own]) => own?.ok)).toBe(true);
    expect((await stores[0]?.stats())?.total).toBe(11);
  });
});

describe("sqliteStore", () => {
  it.each(["write", "read"])("a long row of awaited %ss lets timers fire", async (what) => {
    const { store } = open();
    let fired = false;
    setTimeout(() => {
      fired = true;
    }, 1);
    for (let i = 0; !fired; i += 1) {
      expect(i, "calls without a turn of the event loop").toBeLessThan(100_000);
      if (what === "read") await store.read(["nt1_none"]);
      else await store.write([{ record: sampleRecord({ key: `nt1_${i}` }), expected: null }]);
    }
  });

  it("says what is wrong with its options", () => {
    expect(() => sqliteStore({})).toThrow(/either path .* or database/);
    expect(() => sqliteStore({ path: "a.db", database: {} as SqliteHandle })).toThrow(/either path .* or database/);
    expect(() => sqliteStore({ database: {} as SqliteHandle })).toThrow(/not a SQLite connection/);
    expect(() => sqliteStore({ path: ":memory:" })).toThrow(/path of a file/);
  });

  it("a path that cannot be opened is a CONFIG error that names it", async () => {
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "");
    await expect(open(join(file, "ledger.db")).store.read(["a"])).rejects.toThrow(/ledger/);
    await expect(open(temporaryFolder()).store.read(["a"])).rejects.toMatchObject({ code: expect.any(String) });
  });

  it("F12: a lock held by another connection is waited for; one that stays is an error", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const store = sqliteStore({ path, busyMs: 300 });
    onTestFinished(() => store.close());
    await store.write([put("nt1_a")]);
    const db = connect(path);
    onTestFinished(() => db.close());
    db.exec("BEGIN IMMEDIATE");
    const waiting = store.write([put("nt1_b")]);
    setTimeout(() => db.exec("COMMIT"), 50);
    expect(await waiting).toMatchObject([{ ok: true }]);
    db.exec("BEGIN IMMEDIATE");
    await expect(store.write([put("nt1_c")])).rejects.toThrow(/locked by another process for too long/);
    db.exec("ROLLBACK");
    expect(await store.write([put("nt1_c")])).toMatchObject([{ ok: true }]);
  });

  it("the long log that a crowd left behind is begun anew when it has gone", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const store = sqliteStore({ path });
    onTestFinished(() => store.close());
    const rounds = () => readFileSync(`${path}-wal`).readUInt32BE(CHECKPOINT_SEQUENCE);
    for (let batch = 0; batch < 20; batch += 1) {
      await store.write(Array.from({ length: 96 }, (_, i) => put(`nt1_${batch}_${i}`)));
    }
    const before = rounds();
    let commits = 0;
    while (rounds() === before && commits < 1_000) {
      commits += 1;
      await store.write([put(`nt1_alone_${commits}`)]);
      await new Promise((turned) => setImmediate(turned));
    }
    expect(commits).toBeLessThan(1_000);
  });

  it("text of every kind comes back as it went in", async () => {
    const { store } = open();
    const odd = "é\u2028'\"\\ \u001f 🎉 \t\n";
    const record = sampleRecord({
      key: "nt1_odd",
      tenant: odd,
      action: odd,
      scope: odd,
      result: { json: JSON.stringify(odd) },
    });
    await store.write([{ record, expected: null }]);
    expect((await store.read(["nt1_odd"]))[0]?.record).toEqual(record);
  });
});
