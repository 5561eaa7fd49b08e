/** F11: a full disk. Calls fail closed, nothing is left behind that keeps it full, and they work again when there is room. */
import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { smallDisk } from "../../../test/support/small-disk.ts";
import { sampleRecord } from "../../testing/index.ts";
import { localDisk } from "./disk.ts";
import { type Disk, type FileStoreOptions, fileStore } from "./index.ts";

const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

function stoppedClock() {
  let steady = 1_000;
  return {
    instant: () => ({ now: 1_790_000_000_000 + steady, steady, epoch: "test" }),
    advance: (ms: number) => {
      steady += ms;
    },
  };
}

function place() {
  const folder = temporaryFolder();
  return { folder, path: join(folder, "ledger.jsonl") };
}

function open(options: FileStoreOptions) {
  const store = fileStore(options);
  onTestFinished(() => store.close());
  const rewrite = async (key: string) => {
    const [current] = await store.read([key]);
    return store.write([{ record: sampleRecord({ key }), expected: current?.version ?? null }]);
  };
  return { store, rewrite };
}

const beside = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".new"));
const isCompacted = (path: string) => JSON.parse(readFileSync(path, "utf8").split("\n")[0] as string).compacted > 0;

describe("a compaction that finds no room", () => {
  it("leaves no file behind, the calls go on, and it is made up for when there is room", async () => {
    const { folder, path } = place();
    const small = smallDisk(folder, Number.MAX_SAFE_INTEGER);
    const clock = stoppedClock();
    const { store, rewrite } = open({ path, disk: small.disk, clock, compactAfterLines: 10 });
    for (let i = 0; i < 60; i += 1) await store.write([put(`nt1_${i}`)]);
    const bytes = statSync(path).size;
    // Room for more lines, and not for a second file.
    small.limit = folderBytes(folder) + Math.floor(bytes * 0.9);
    let written = 0;
    let refused: unknown = null;
    for (let i = 0; refused === null && i < 1_000; i += 1) {
      refused = await rewrite(`nt1_${i % 60}`).then(
        () => null,
        (error: Error) => error,
      );
      if (refused === null) written += 1;
      clock.advance(1_000);
      expect(beside(folder)).toEqual([]);
    }
    // Every byte of the room went to calls.
    expect(written).toBeGreaterThan(20);
    expect(refused).toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/ENOSPC.*Make room on its disk/),
    });
    expect(isCompacted(path)).toBe(false);
    // What was acknowledged can be read meanwhile, by a new program too.
    const { store: other } = open({ path, disk: small.disk, clock });
    expect((await other.stats()).total).toBe(60);
    small.limit = Number.MAX_SAFE_INTEGER;
    clock.advance(600_000);
    expect(await rewrite("nt1_0")).toMatchObject([{ ok: true }]);
    await store.read(["nt1_0"]);
    await store.close();
    expect(isCompacted(path)).toBe(true);
    expect((await other.stats()).total).toBe(60);
  });

  it("is not begun where the disk says that there is no room", async () => {
    const { path } = place();
    let begun = 0;
    const disk: Disk = {
      ...localDisk,
      freeBytes: () => 200_000,
      open: (name, how, file) => {
        if (how === "create" && name === `${path}.new` && existsSync(path)) begun += 1;
        return localDisk.open(name, how, file);
      },
    };
    const { rewrite, store } = open({ path, disk, compactAfterLines: 10 });
    for (let i = 0; i < 60; i += 1) await rewrite("nt1_a");
    await store.close();
    expect(begun).toBe(0);
    expect(isCompacted(path)).toBe(false);
  });

  it("is tried again after a pause that grows, however many calls there are", async () => {
    const { path } = place();
    const clock = stoppedClock();
    let tries = 0;
    const disk: Disk = {
      ...localDisk,
      freeBytes: () => {
        tries += 1;
        return 0;
      },
    };
    const { rewrite, store } = open({ path, disk, clock, compactAfterLines: 0 });
    const triesAfter = async (ms: number) => {
      clock.advance(ms);
      for (let i = 0; i < 10; i += 1) await rewrite("nt1_a");
      return tries;
    };
    expect(await triesAfter(0)).toBe(1);
    expect(await triesAfter(999)).toBe(1);
    expect(await triesAfter(1)).toBe(2);
    expect(await triesAfter(1_999)).toBe(2);
    expect(await triesAfter(1)).toBe(3);
    expect(await triesAfter(4_000)).toBe(4);
    await store.close();
  });

  it("a rename that fails leaves no file behind, and a record can still be set aside", async () => {
    const { folder, path } = place();
    const armed = { on: false };
    const disk: Disk = {
      ...localDisk,
      rename: (from, to) => {
        if (armed.on && to === path) throw Object.assign(new Error("EIO: rename"), { code: "EIO" });
        localDisk.rename(from, to);
      },
    };
    const { store } = open({ path, disk });
    await store.write([put("nt1_a"), put("nt1_b")]);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace('"key":"nt1_a"', '"key":"nt1_c"'));
    armed.on = true;
    const { store: second } = open({ path, disk });
    await expect(second.read(["nt1_a"])).rejects.toThrow(/does not match its checksum/);
    expect(await second.quarantine?.("nt1_a")).toMatchObject({ key: "nt1_a" });
    expect(await second.read(["nt1_a", "nt1_b"])).toMatchObject([null, {}]);
    expect(beside(folder)).toEqual([]);
  });
});

function folderBytes(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

describe("what a killed compaction left behind", () => {
  async function left() {
    const { folder, path } = place();
    const { store } = open({ path });
    for (let i = 0; i < 30; i += 1) await store.write([put(`nt1_${i}`)]);
    copyFileSync(path, `${path}.new`);
    copyFileSync(`${path}.id`, `${path}.id.new`);
    return { folder, path, running: store };
  }

  it("is removed at the next open", async () => {
    const { folder, path } = await left();
    const { store } = open({ path });
    await store.write([put("nt1_x")]);
    expect(beside(folder)).toEqual([]);
    expect((await store.stats()).total).toBe(31);
  });

  it("is removed by a program that runs, when the disk is full", async () => {
    const { folder, path, running } = await left();
    const bytes = folderBytes(folder);
    const small = smallDisk(folder, bytes + 300);
    await running.close();
    const { store } = open({ path, disk: small.disk });
    await store.write([put("nt1_x")]);
    copyFileSync(path, `${path}.new`);
    small.limit = folderBytes(folder);
    expect(await store.write([put("nt1_y")])).toMatchObject([{ ok: true }]);
    expect(beside(folder)).toEqual([]);
  });

  it("is left alone where it is a file of somebody else's", async () => {
    const { path } = await left();
    writeFileSync(`${path}.new`, "my notes");
    const { store } = open({ path });
    await store.write([put("nt1_x")]);
    expect(readFileSync(`${path}.new`, "utf8")).toBe("my notes");
  });
});

describe("a full disk at other moments", () => {
  it("a torn end is cut off, although there is no room to keep a copy of it", async () => {
    const { folder, path } = place();
    const first = open({ path });
    await first.store.write([put("nt1_a"), put("nt1_b")]);
    await first.store.close();
    appendFileSync(path, '{"rev":3,"commit":3,"key":"nt1_c","sta');
    const { store } = open({ path, disk: smallDisk(folder, folderBytes(folder)).disk });
    expect((await store.stats()).total).toBe(2);
    expect(readdirSync(folder).filter((name) => name.includes(".torn"))).toEqual([]);
    expect(readFileSync(path, "utf8").endsWith("\n")).toBe(true);
  });

  it("a ledger that cannot be made leaves nothing behind, and is made when there is room", async () => {
    const { folder, path } = place();
    const small = smallDisk(folder, 150);
    const { store } = open({ path, disk: small.disk });
    for (const limit of [20, 150]) {
      small.limit = limit;
      await expect(store.write([put("nt1_a")])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(beside(folder)).toEqual([]);
    }
    small.limit = 10_000;
    expect(await store.write([put("nt1_a")])).toMatchObject([{ ok: true }]);
  });
});
