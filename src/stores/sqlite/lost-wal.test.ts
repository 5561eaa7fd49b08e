import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { countKill } from "../../../test/crash/lib/processes.mjs";
import { sqliteModule } from "../../../test/support/database-sync.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { lostWal } from "./lost-wal.ts";

/** In a process of its own each time: what SQLite knows of a file, a process keeps until it ends. */
function inProcess(path: string, script: string): { value: unknown; error: string | null; signal: string | null } {
  const program = `
    import { DatabaseSync } from ${JSON.stringify(sqliteModule)};
    import { sqliteStore } from ${JSON.stringify(import.meta.resolve("nevertwice/sqlite"))};
    const path = ${JSON.stringify(path)};
    const record = ${JSON.stringify(sampleRecord({ key: "nt1_x" }))};
    const store = sqliteStore({ path });
    const put = (key) => store.write([{ record: { ...record, key }, expected: null }]);
    const answer = async () => { ${script} };
    const [value, error] = await answer().then((value) => [value, null], (error) => [null, error.code + ": " + error.message]);
    console.log(JSON.stringify({ value, error }));`;
  const { stdout, signal } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  return { value: null, error: null, ...(stdout === "" ? {} : JSON.parse(stdout)), signal };
}

/** A ledger whose first record is in the file, and whose other ones are in the log of a process that was killed. */
function killedLedger(): string {
  const path = join(temporaryFolder(), "ledger.db");
  expect(inProcess(path, `await put("nt1_saved"); await store.close();`)).toMatchObject({ error: null, signal: null });
  const { signal } = inProcess(
    path,
    `for (let i = 0; i < 5; i += 1) await put("nt1_" + i); process.kill(process.pid, "SIGKILL");`,
  );
  expect(signal).toBe("SIGKILL");
  countKill();
  return path;
}

const READ = `const rows = await store.read(["nt1_saved", "nt1_0", "nt1_4"]); await store.close(); return rows.map((row) => row !== null);`;
const readAt = (path: string) => inProcess(path, READ);
const closeElsewhere = `const db = new DatabaseSync(path); db.prepare("SELECT count(*) FROM nevertwice_records").all(); db.close();`;

describe("F13 a write-ahead log that was deleted after a kill", () => {
  it("is noticed, and everything is there again once it is restored", () => {
    const path = killedLedger();
    renameSync(`${path}-wal`, `${path}.kept`);
    expect(readAt(path).error).toMatch(
      /^STORE_UNAVAILABLE: .*-wal is gone, and with it \d+ pages.*left as it is, and nothing was run/,
    );
    expect(existsSync(`${path}-wal`)).toBe(false);
    renameSync(`${path}.kept`, `${path}-wal`);
    expect(readAt(path).value).toEqual([true, true, true]);
  });

  it("the error says how to go on without a backup, and that way works", () => {
    const path = killedLedger();
    rmSync(`${path}-wal`);
    const { error } = readAt(path);
    expect(error).toContain(`go on without the lost records, stop every program that uses it and remove ${path}-shm`);
    expect(error).not.toMatch(/doctor/);
    rmSync(`${path}-shm`);
    expect(readAt(path).value).toEqual([true, false, false]);
  });

  it("is not noticed where its index was deleted too", () => {
    const path = killedLedger();
    rmSync(`${path}-wal`);
    rmSync(`${path}-shm`);
    expect(readAt(path).value).toEqual([true, false, false]);
  });
});

describe("F13 a write-ahead log that was shortened after a kill", () => {
  const cuts: readonly (readonly [what: string, length: (size: number) => number])[] = [
    ["to nothing", () => 0],
    ["to a part of its header", () => 20],
    ["to its header", () => 32],
    ["to half", (size) => Math.floor(size / 2)],
    ["by one byte", (size) => size - 1],
  ];

  it.each(cuts)("%s is noticed, and everything is there again once it is restored", (_what, length) => {
    const path = killedLedger();
    copyFileSync(`${path}-wal`, `${path}.kept`);
    truncateSync(`${path}-wal`, length(statSync(`${path}-wal`).size));
    const refused = readAt(path).error;
    expect(refused).toMatch(/^STORE_UNAVAILABLE: .*-wal is shorter than what was committed.*nothing was run/);
    expect(refused).toContain(`${path}-shm`);
    copyFileSync(`${path}.kept`, `${path}-wal`);
    expect(readAt(path).value).toEqual([true, true, true]);
  });

  it("an older copy of the same log in its place is noticed", () => {
    const path = killedLedger();
    const log = readFileSync(`${path}-wal`);
    const { signal } = inProcess(path, `await put("nt1_later"); process.kill(process.pid, "SIGKILL");`);
    expect(signal).toBe("SIGKILL");
    countKill();
    const later = readFileSync(`${path}-wal`);
    // The rest of the file as an earlier round of the log would have left it.
    writeFileSync(`${path}-wal`, Buffer.concat([log, Buffer.alloc(later.length - log.length, 7)]));
    expect(readAt(path).error).toMatch(/-wal is shorter than what was committed/);
    writeFileSync(`${path}-wal`, later);
    expect(readAt(path).error).toBeNull();
  });

  it("is taken as it is once its index is removed, as the error says", () => {
    const path = killedLedger();
    truncateSync(`${path}-wal`, 0);
    expect(readAt(path).error).toMatch(/To go on without them, remove .*-shm/);
    rmSync(`${path}-shm`);
    expect(readAt(path).value).toEqual([true, false, false]);
  });

  it("is not judged by an index from before the machine was started: its pages may be older than the log", () => {
    const path = killedLedger();
    truncateSync(`${path}-wal`, 0);
    expect(lostWal(path)).not.toBeNull();
    expect(lostWal(path, Date.now() + 60_000)).toBeNull();
    utimesSync(`${path}-shm`, new Date(0), new Date(0));
    expect(lostWal(path)).toBeNull();
  });
});

describe("F13 a write-ahead log that is deleted under a running program", () => {
  it("is noticed, and what was committed is in the file once the program has closed it", () => {
    const path = join(temporaryFolder(), "ledger.db");
    const { value } = inProcess(
      path,
      `await put("nt1_saved"); await put("nt1_0"); await put("nt1_4");
       (await import("node:fs")).rmSync(path + "-wal");
       for (let i = 10; i < 400; i += 1) {
         try { await put("nt1_" + i); } catch (error) { await store.close(); return error.code + ": " + error.message; }
         await new Promise((done) => setTimeout(done, 5));
       }`,
    );
    expect(value).toMatch(/^STORE_UNAVAILABLE: .*its log \(-wal\) .* was removed or replaced.*Nothing was run/);
    expect(readAt(path).value).toEqual([true, true, true]);
  });
});

describe("a log that is not lost", () => {
  it("was removed by whoever closed last, this program or another one", () => {
    const path = killedLedger();
    expect(lostWal(path)).toBeNull();
    inProcess(path, closeElsewhere);
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(readAt(path).value).toEqual([true, true, true]);
  });

  it("had every frame in the file: an index that was left behind says so, or nothing", () => {
    const path = killedLedger();
    const index = readFileSync(`${path}-shm`);
    index.copy(index, 96, 16, 20);
    inProcess(path, closeElsewhere);
    for (const left of [index, index.subarray(0, 50), Buffer.alloc(32_768), Buffer.alloc(0)]) {
      writeFileSync(`${path}-shm`, left);
      expect(lostWal(path)).toBeNull();
    }
    expect(readAt(path).value).toEqual([true, true, true]);
  });

  it("is whole after a kill at any moment, also beside other writers and checkpoints of every kind", () => {
    const path = join(temporaryFolder(), "ledger.db");
    const churn = `
      const db = new DatabaseSync(path);
      db.exec("PRAGMA busy_timeout = 5000");
      for (let i = 0; ; i += 1) {
        await put("nt1_" + process.pid + "_" + i);
        if (i % 7 === 3) db.prepare("PRAGMA wal_checkpoint(" + ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][i % 4] + ")").all();
        if (i === KILLED_AT) process.kill(process.pid, "SIGKILL");
      }`;
    for (let round = 0; round < 12; round += 1) {
      const { signal } = inProcess(path, churn.replace("KILLED_AT", String(round * 3)));
      expect(signal).toBe("SIGKILL");
      countKill();
      expect(lostWal(path)).toBeNull();
    }
    expect(inProcess(path, "await store.stats(); await store.close();").error).toBeNull();
  });

  it("is being written and begun anew by another program at this moment", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const writer = spawn(process.execPath, [
      "--input-type=module",
      "-e",
      `import { DatabaseSync } from ${JSON.stringify(sqliteModule)};
       const db = new DatabaseSync(${JSON.stringify(path)});
       db.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
       console.log("ready");
       for (let i = 0; i < 20000; i += 1) {
         db.exec("INSERT INTO t VALUES (randomblob(1000))");
         if (i % 5 === 4) db.prepare("PRAGMA wal_checkpoint(" + ["PASSIVE", "RESTART", "TRUNCATE"][i % 3] + ")").all();
       }`,
    ]);
    const ended = once(writer, "exit");
    await once(writer.stdout, "data");
    for (let i = 0; i < 3_000; i += 1) expect(lostWal(path)).toBeNull();
    writer.kill("SIGKILL");
    await ended;
    countKill();
    expect(lostWal(path)).toBeNull();
  });

  it("is no second SQLite library: threads, and a second store in this process, open the file after a kill", () => {
    const path = killedLedger();
    const { value, error } = inProcess(
      path,
      `const record1 = (i) => ({ record: { ...record, key: "nt1_many" + i }, expected: null });
       await store.write(Array.from({ length: 50 }, (_, i) => record1(i)));
       const second = sqliteStore({ path });
       await second.write(Array.from({ length: 50 }, (_, i) => record1(i + 50)));
       const { total } = await second.stats();
       await second.close();
       await store.close();
       return total;`,
    );
    expect([value, error]).toEqual([106, null]);
  });

  it("keeps the locks of this process's own connections while it is looked at", () => {
    const path = join(temporaryFolder(), "ledger.db");
    const { value } = inProcess(
      path,
      `await put("nt1_a");
       const reader = new DatabaseSync(path);
       reader.exec("BEGIN");
       reader.prepare("SELECT count(*) FROM nevertwice_records").all();
       const second = sqliteStore({ path });
       await second.read(["nt1_a"]);
       await put("nt1_b");
       const { execFileSync } = await import("node:child_process");
       const script = "const { DatabaseSync } = require(process.argv[2]); const db = new DatabaseSync(process.argv[1]); console.log(db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all()[0].busy)";
       const busy = execFileSync(process.execPath, ["-e", script, path, ${JSON.stringify(sqliteModule)}], { encoding: "utf8" }).trim();
       reader.exec("COMMIT");
       return busy;`,
    );
    // Busy: the reader's lock on the index is still there, so no other process may begin the log anew.
    expect(value).toBe("1");
  });
});
