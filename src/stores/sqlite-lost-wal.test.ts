import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { countKill } from "../../test/crash/lib/processes.mjs";
import { sqliteModule } from "../../test/support/database-sync.ts";
import { temporaryFolder } from "../../test/support/each-store.ts";
import { sampleRecord } from "../testing/index.ts";
import { lostWal } from "./sqlite-lost-wal.ts";

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
});
