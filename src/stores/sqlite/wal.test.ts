/** F13: a write-ahead log that was damaged is refused; one that was only cut short is not. */
import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqliteStore } from "nevertwice/sqlite";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { countKill } from "../../../test/crash/lib/processes.mjs";
import { DatabaseSync, sqliteModule } from "../../../test/support/database-sync.ts";
import { walDamage } from "./wal.ts";

/** What a read sees of a log that is being written: changes the bytes that were read from `position`. */
const meanwhile = vi.hoisted(() => ({ read: (_bytes: Buffer, _position: number): void => {} }));
vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  const readSync = (file: number, bytes: Buffer, offset: number, length: number, position: number) => {
    const many = fs.readSync(file, bytes, offset, length, position);
    meanwhile.read(bytes, position);
    return many;
  };
  return { ...fs, readSync };
});

const COMMITS = 24;
const FLIPS = 150;
const HEADER = 32;
const FRAME = 24 + 2048;
const KEYS = Array.from({ length: COMMITS }, (_, i) => `nt1_${i}`);

let home: string;
let sound: string;
/** The log as the killed process left it. */
let log: Buffer;
let expected: unknown[];
/** Where each transaction ends in the log. */
let ends: number[];
let copies = 0;

const built = (file: string) => new URL(`../../../dist/${file}`, import.meta.url).href;

function scriptFile(body: string): string {
  copies += 1;
  const file = join(home, `script-${copies}.mjs`);
  const head = `import { createRequire } from "node:module";
    const { DatabaseSync } = createRequire(${JSON.stringify(import.meta.url)})(${JSON.stringify(sqliteModule)});`;
  writeFileSync(file, `${head}\n${body}`);
  return file;
}

/** Commits, then ends as by a power cut: nothing closed, nothing checkpointed but what `between` says. */
function commitAndDie(path: string, between = ""): void {
  const script = `
    import { sqliteStore } from ${JSON.stringify(built("stores/sqlite/index.js"))};
    import { sampleRecord } from ${JSON.stringify(built("testing/index.js"))};
    const path = ${JSON.stringify(path)};
    const store = sqliteStore({ path });
    const commit = async (key) => store.write([{ record: sampleRecord({ key }), expected: null }]);
    const checkpoint = (how) => new DatabaseSync(path).prepare("PRAGMA wal_checkpoint(" + how + ")").all();
    for (let i = 0; i < ${COMMITS}; i += 1) await commit("nt1_" + i);
    ${between}
    process.kill(process.pid, "SIGKILL");`;
  const { signal, stderr } = spawnSync(process.execPath, [scriptFile(script)]);
  expect([signal, signal === null ? String(stderr) : ""]).toEqual(["SIGKILL", ""]);
  countKill();
}

/** The ledger in a folder of its own, its log as given. */
function copyWith(bytes: Uint8Array, from = sound): string {
  copies += 1;
  const folder = join(home, `copy-${copies}`);
  mkdirSync(folder);
  const path = join(folder, "ledger.db");
  copyFileSync(from, path);
  copyFileSync(`${from}.id`, `${path}.id`);
  writeFileSync(`${path}-wal`, bytes);
  return path;
}

/** What can be read, or the error's code. */
async function readBack(path: string, keys = KEYS): Promise<unknown[] | string> {
  const store = sqliteStore({ path });
  try {
    return await store.read(keys);
  } catch (error) {
    expect((error as Error).message).toContain("was left as it is");
    return String((error as { code?: unknown }).code);
  } finally {
    await store.close();
  }
}

function flipped(bytes: Buffer, offset: number, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(offset) ^ (1 << bit), offset);
  return copy;
}

function changed(change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(log);
  change(copy);
  return copy;
}

function endsOf(bytes: Buffer): number[] {
  const salts = bytes.subarray(16, 24);
  const found: number[] = [];
  for (let at = HEADER; at + FRAME <= bytes.length; at += FRAME) {
    if (bytes.readUInt32BE(at + 4) !== 0 && bytes.subarray(at + 8, at + 16).equals(salts)) found.push(at + FRAME);
  }
  return found;
}

const lastBegins = () => ends.at(-2) as number;

/** The seed is in the test's name, so that a failure can be run again. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The same log as a machine of the other byte order writes it. */
function inOtherByteOrder(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt32BE(0x377f0683, 0);
  let sums = [0, 0];
  const sum = (from: number, length: number) => {
    let [one, two] = sums as [number, number];
    for (let at = from; at < from + length; at += 8) {
      one = (one + copy.readUInt32BE(at) + two) >>> 0;
      two = (two + copy.readUInt32BE(at + 4) + one) >>> 0;
    }
    sums = [one, two];
  };
  const store = (at: number) => sums.forEach((value, i) => void copy.writeUInt32BE(value, at + 4 * i));
  sum(0, 24);
  store(24);
  for (let at = HEADER; at + FRAME <= copy.length; at += FRAME) {
    sum(at, 8);
    sum(at + 24, FRAME - 24);
    store(at + 16);
  }
  return copy;
}

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "nevertwice-wal-"));
  sound = join(home, "ledger.db");
  commitAndDie(sound);
  log = readFileSync(`${sound}-wal`);
  ends = endsOf(log);
  const read = await readBack(copyWith(log));
  if (typeof read === "string") throw new Error(`the untouched ledger was refused: ${read}`);
  expected = read;
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("F13 a damaged write-ahead log", () => {
  it("untouched, it opens and everything is there", () => {
    expect(ends.length).toBeGreaterThanOrEqual(COMMITS);
    expect(ends.at(-1)).toBe(log.length);
    expect(expected).toHaveLength(COMMITS);
    expect(expected).not.toContain(null);
  });

  it(`${FLIPS} flipped bits (seed 13): refused, or all there; in the last transaction, at most that one is lost`, async () => {
    const random = seeded(13);
    let refused = 0;
    for (let i = 0; i < FLIPS; i += 1) {
      const offset = random(log.length);
      const bit = random(8);
      const path = copyWith(flipped(log, offset, bit));
      const read = await readBack(path);
      const where = `bit ${bit} of byte ${offset}`;
      if (offset >= lastBegins()) {
        expect(read.slice(0, -1), where).toEqual(expected.slice(0, -1));
        expect([null, expected.at(-1)], where).toContainEqual(read.at(-1));
      } else if (read === "STORE_UNAVAILABLE") {
        refused += 1;
        expect(readFileSync(`${path}-wal`).equals(flipped(log, offset, bit)), where).toBe(true);
      } else expect(read, where).toEqual(expected);
      rmSync(join(path, ".."), { recursive: true });
    }
    expect(refused).toBeGreaterThan(FLIPS / 2);
  });

  it("every bit of the log's header, and of frames' headers up to the last transaction, is noticed", () => {
    const path = copyWith(log);
    const missed: string[] = [];
    const flip = (offset: number, bit: number) => {
      writeFileSync(`${path}-wal`, flipped(log, offset, bit));
      if (walDamage(path) === null) missed.push(`bit ${bit} of byte ${offset}`);
    };
    const heads = [0];
    // The first frames, which make the schema, and the last ones that a later transaction still proves.
    const before = lastBegins();
    for (let at = HEADER; at < before; at += FRAME) if (at < 4 * FRAME || at > before - 6 * FRAME) heads.push(at);
    for (const at of heads) {
      for (let byte = 0; byte < (at === 0 ? HEADER : 24); byte += 1) {
        for (let bit = 0; bit < 8; bit += 1) flip(at + byte, bit);
      }
    }
    expect(missed).toEqual([]);
  });

  it("a commit of 16 pages that reads as none is still known for a commit", () => {
    const path = join(home, "sixteen.db");
    const db = new DatabaseSync(path);
    db.exec("PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x)");
    for (let i = 0; i < 40; i += 1) db.exec("INSERT INTO t VALUES (zeroblob(200))");
    const bytes = readFileSync(`${path}-wal`);
    db.close();
    writeFileSync(path, "");
    let tried = 0;
    for (let at = HEADER; at < bytes.length - 4 * 536; at += 536) {
      const size = bytes.readUInt32BE(at + 4);
      if (size === 0 || (size & (size - 1)) !== 0) continue;
      // Only the next transaction follows it.
      let next = at + 536;
      while (bytes.readUInt32BE(next + 4) === 0) next += 536;
      const short = Buffer.from(bytes.subarray(0, next + 536));
      short.writeUInt32BE(0, at + 4);
      writeFileSync(`${path}-wal`, short);
      expect(walDamage(path)).toContain("write-ahead log is damaged");
      tried += 1;
    }
    expect(tried).toBeGreaterThan(2);
  });

  it.each([
    ["zeroed", (copy: Buffer) => copy.fill(0, 0, HEADER)],
    ["random", (copy: Buffer) => copy.fill("what is this?", 0, HEADER)],
    ["its first sector zeroed", (copy: Buffer) => copy.fill(0, 0, 512)],
  ])("a header that is lost (%s) before finished commits is refused", async (_, change) => {
    expect(await readBack(copyWith(changed(change)))).toBe("STORE_UNAVAILABLE");
  });

  it("a page or a whole transaction in the middle that is zeroed is refused", async () => {
    const [from, to] = ends.slice(9, 11) as [number, number];
    expect(await readBack(copyWith(changed((copy) => copy.fill(0, from, to))))).toBe("STORE_UNAVAILABLE");
    expect(await readBack(copyWith(changed((copy) => copy.fill(0, from + 24, from + 536))))).toBe("STORE_UNAVAILABLE");
  });

  it("a log of the other byte order is read alike", () => {
    const other = inOtherByteOrder(log);
    expect(walDamage(copyWith(other))).toBeNull();
    expect(walDamage(copyWith(flipped(other, HEADER + FRAME + 100, 3)))).toContain("frame 2 is not what was written");
    expect(walDamage(copyWith(flipped(other, 9, 3)))).toContain("the header is not what was written");
  });

  it("is found behind a link to the ledger", () => {
    const link = join(home, "link.db");
    symlinkSync(copyWith(flipped(log, HEADER + 100, 1)), link);
    expect(walDamage(link)).toContain("write-ahead log is damaged");
  });
});

describe("F13 a write-ahead log that is not damaged", () => {
  const keepsAllButTheLast = async (bytes: Uint8Array, what: string) => {
    const read = await readBack(copyWith(bytes));
    expect(read.slice(0, -1), what).toEqual(expected.slice(0, -1));
    expect([null, expected.at(-1)], what).toContainEqual(read.at(-1));
  };

  it("cut anywhere in its last transaction it opens", async () => {
    const path = copyWith(log);
    for (let length = lastBegins(); length < log.length; length += 97) {
      writeFileSync(`${path}-wal`, log.subarray(0, length));
      expect(walDamage(path), `cut at ${length}`).toBeNull();
    }
    const random = seeded(7);
    for (let i = 0; i < 15; i += 1) {
      const length = lastBegins() + random(log.length - lastBegins());
      await keepsAllButTheLast(log.subarray(0, length), `cut at ${length}`);
    }
  });

  it("with pages of its last transaction zeroed, or written in another order, it opens", async () => {
    const begins = lastBegins();
    for (let at = begins - (begins % 512); at < log.length; at += 512) {
      const torn = changed((copy) => copy.fill(0, Math.max(at, begins), Math.min(at + 512, log.length)));
      expect(walDamage(copyWith(torn)), `sector at ${at}`).toBeNull();
    }
    for (let at = begins; at < log.length; at += FRAME) {
      await keepsAllButTheLast(
        changed((copy) => copy.fill(0, at, at + FRAME)),
        `frame at ${at}`,
      );
    }
    const reversed = changed((copy) => {
      for (let at = begins, from = log.length - FRAME; at < log.length; at += FRAME, from -= FRAME) {
        log.copy(copy, at, from, from + FRAME);
      }
    });
    await keepsAllButTheLast(reversed, "reversed");
  });

  it("frames of an earlier round behind the current ones are none of its own", async () => {
    const path = join(home, "rounds.db");
    const more = [...KEYS, "nt1_later0", "nt1_later1"];
    commitAndDie(path, `checkpoint("RESTART"); await commit("nt1_later0"); await commit("nt1_later1");`);
    const bytes = readFileSync(`${path}-wal`);
    expect(endsOf(bytes)).toHaveLength(2);
    expect(endsOf(bytes).at(-1)).toBeLessThan(bytes.length / 4);
    const read = await readBack(copyWith(bytes, path), more);
    expect(read).toHaveLength(COMMITS + 2);
    expect(read).not.toContain(null);
    // Of two rounds, only the current one counts: its first transaction is proven by the second, its second by none.
    const [first] = endsOf(bytes) as [number];
    expect(walDamage(copyWith(flipped(bytes, first - 9, 1), path))).toContain("damaged");
    expect(walDamage(copyWith(flipped(bytes, first + 99, 1), path))).toBeNull();
    expect(walDamage(copyWith(flipped(bytes, bytes.length - 9, 1), path))).toBeNull();
  });

  it("what two killed writers left behind a shorter commit, each with its commit frame, is not taken for a loss", () => {
    const path = join(home, "writers.db");
    // The log as it is, and behind it what a writer of so many large rows appends.
    const appended = (start: Buffer, file: Buffer, rows: number) => {
      writeFileSync(path, file);
      writeFileSync(`${path}-wal`, start);
      rmSync(`${path}-shm`, { force: true });
      const db = new DatabaseSync(path);
      db.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; BEGIN");
      for (let i = 0; i < rows; i += 1) db.exec("INSERT INTO t VALUES (hex(randomblob(3000)))");
      db.exec("COMMIT");
      const bytes = readFileSync(`${path}-wal`);
      db.close();
      return bytes;
    };
    const db = new DatabaseSync(path);
    db.exec("PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    const base = readFileSync(`${path}-wal`);
    const file = readFileSync(path);
    db.close();
    const first = appended(base, file, 9);
    const second = appended(base, file, 4);
    const finished = appended(base, file, 1);
    const left = Buffer.from(first);
    second.copy(left);
    finished.copy(left);
    expect([base, finished, second, first].map((bytes) => endsOf(bytes).at(-1))).toEqual(
      [base, finished, second, first].map((bytes) => bytes.length),
    );
    expect(endsOf(left).length).toBe(endsOf(base).length + 3);
    writeFileSync(path, file);
    writeFileSync(`${path}-wal`, left);
    expect(walDamage(path)).toBeNull();
  });

  it("a log that another process writes and begins anew all the while is never refused", async () => {
    const path = join(home, "live.db");
    const script = `
      const db = new DatabaseSync(${JSON.stringify(path)});
      db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 40; CREATE TABLE t (x)");
      console.log("ready");
      for (;;) db.exec("INSERT INTO t VALUES (randomblob(9000)); DELETE FROM t WHERE rowid < (SELECT max(rowid) FROM t) - 5");`;
    const writer = spawn(process.execPath, [scriptFile(script)]);
    try {
      await new Promise((ready) => writer.stdout.once("data", ready));
      const found = new Set<string | null>();
      const salts = new Set<string>();
      for (const until = performance.now() + 1_500; performance.now() < until; ) {
        found.add(walDamage(path));
        salts.add(readFileSync(`${path}-wal`).toString("hex", 16, 24));
      }
      expect([...found]).toEqual([null]);
      expect(salts.size).toBeGreaterThan(5);
    } finally {
      writer.kill("SIGKILL");
      await new Promise((gone) => writer.once("exit", gone));
      countKill();
    }
  });

  it("a frame that was half written at one look and whole at the next, or a log begun anew, is no damage", () => {
    const path = copyWith(log);
    const nothing = meanwhile.read;
    onTestFinished(() => {
      meanwhile.read = nothing;
    });
    const flip = (bytes: Buffer, at: number) => bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    let looks = 0;
    meanwhile.read = (bytes, position) => {
      if (position !== HEADER) return;
      looks += 1;
      if (looks === 1) flip(bytes, 100);
    };
    expect([walDamage(path), looks]).toEqual([null, 2]);
    // The first frame is of the new round already, the header that was read before it is not.
    let headers = 0;
    meanwhile.read = (bytes, position) => {
      if (position === 0) headers += 1;
      if (position === HEADER || headers % 2 === 0) flip(bytes, 16);
    };
    expect([walDamage(path), headers]).toEqual([null, 4]);
    meanwhile.read = (bytes, position) => void (position === HEADER && flip(bytes, 100));
    expect(walDamage(path)).toContain("frame 1 is not what was written");
  });

  it("no log, an empty one, one of a few bytes, no ledger", () => {
    const path = copyWith(Buffer.alloc(0));
    expect(walDamage(path)).toBeNull();
    writeFileSync(`${path}-wal`, log.subarray(0, HEADER));
    expect(walDamage(path)).toBeNull();
    writeFileSync(`${path}-wal`, Buffer.alloc(100_000));
    expect(walDamage(path)).toBeNull();
    rmSync(`${path}-wal`);
    expect(walDamage(path)).toBeNull();
    expect(walDamage(join(home, "nowhere", "ledger.db"))).toBeNull();
    expect(existsSync(join(home, "nowhere"))).toBe(false);
  });
});
