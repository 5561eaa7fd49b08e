import { appendFileSync, existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { steeredClock, temporaryFolder } from "../../../test/support/each-store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord, storeConformance } from "../../testing/index.ts";
import { localDisk } from "./disk.ts";
import { type Disk, fileStore } from "./index.ts";

const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

/** Another digit in the line of a record, as a bad sector or a careless editor leaves it. */
function damage(path: string, key: string): void {
  const text = readFileSync(path, "utf8");
  const line = text.split("\n").find((one) => one.includes(`"key":"${key}"`));
  if (line === undefined) throw new Error(`no line of ${key}`);
  writeFileSync(path, text.replace(line, line.replace('"fence":', '"fenCe":')));
}

storeConformance({
  name: "file",
  runner: { describe, it },
  offers: ["reopen", "advance", "corrupt"],
  open: () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const clock = steeredClock();
    const store = fileStore({ path, clock });
    return {
      store,
      reopen: () => fileStore({ path, clock }),
      advance: clock.advance,
      corrupt: (key) => damage(path, key),
      dispose: () => store.close(),
    };
  },
});

storeConformance({
  name: "file, compacted all the time",
  runner: { describe, it },
  offers: ["reopen", "advance"],
  open: () => {
    const options = {
      path: join(temporaryFolder(), "ledger.jsonl"),
      clock: steeredClock(),
      compactAfterLines: -1_000_000,
    };
    const store = fileStore(options);
    return { store, reopen: () => fileStore(options), advance: options.clock.advance, dispose: () => store.close() };
  },
});

function open(options: { path?: string; disk?: Disk; compactAfterLines?: number } = {}) {
  const path = options.path ?? join(temporaryFolder(), "ledger.jsonl");
  const store = fileStore({ ...options, path });
  onTestFinished(() => store.close());
  return { path, store };
}

async function filled(keys: readonly string[]): Promise<string> {
  const { path, store } = open();
  for (const key of keys) await store.write([put(key)]);
  await store.close();
  return path;
}

const linesOf = (path: string) => readFileSync(path, "utf8").split("\n").slice(0, -1);

describe("D3: the file", () => {
  it("is one line of JSON per change, the fields people look for first", async () => {
    const { path, store } = open();
    await store.write([put("nt1_a"), put("nt1_b")]);
    const [stored] = await store.read(["nt1_a"]);
    await store.write([
      { record: sampleRecord({ key: "nt1_a", state: "confirmed" }), expected: stored?.version ?? null },
    ]);
    const [header, ...changes] = linesOf(path).map((line) => JSON.parse(line));
    expect(header).toMatchObject({ nevertwice: "ledger", format: 1 });
    expect(changes.map(({ rev, commit, key, state }) => [rev, commit, key, state])).toEqual([
      [1, 1, "nt1_a", "pending"],
      [2, 1, "nt1_b", "pending"],
      [3, 3, "nt1_a", "confirmed"],
    ]);
  });

  it("guards an action, and another nevertwice() on the same file replays it", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    let effects = 0;
    for (let program = 0; program < 2; program += 1) {
      const nt = nevertwice({ store: `file:${path}`, sweep: false });
      const send = nt.action("send", { key: ["id"], run: async (_: { id: string }) => ({ n: ++effects }) });
      expect(await send({ id: "a" })).toEqual({ n: 1 });
      await nt.close();
    }
    expect(effects).toBe(1);
  });

  it("one reader and one writer on one file see each other's lines at once", async () => {
    const { path, store } = open();
    const other = open({ path }).store;
    expect(await other.read(["nt1_a"])).toEqual([null]);
    await store.write([put("nt1_a")]);
    expect((await other.read(["nt1_a"]))[0]?.record.key).toBe("nt1_a");
  });

  it("reads only what was appended, never the file again", async () => {
    const path = await filled(Array.from({ length: 300 }, (_, i) => `nt1_${i}`));
    let bytes = 0;
    const disk: Disk = {
      ...localDisk,
      read: (file, at, length) => {
        const got = localDisk.read(file, at, length);
        bytes += got.length;
        return got;
      },
    };
    const { store } = open({ path, disk });
    await store.read(["nt1_0"]);
    const whole = bytes;
    expect(whole).toBeGreaterThan(statSync(path).size);
    bytes = 0;
    for (let call = 0; call < 50; call += 1) {
      await store.read([`nt1_${call}`]);
      await store.write([put(`nt1_new_${call}`)]);
      await store.lease({ holder: "h", limit: 5, leaseMs: 1_000, to: "sent" });
      await store.list({ limit: 5, states: ["unknown"] });
    }
    expect(bytes).toBeLessThan(whole);
  });
});

describe("by name", () => {
  it("file: names no file; file:x.jsonl is the file, and a lost one says what to do", async () => {
    expect(() => nevertwice({ store: "file:" })).toThrow('"file:" names no file. Write file:path/to/ledger.jsonl');
    const path = join(temporaryFolder(), "ledger.jsonl");
    const nt = nevertwice({ store: `file://${path}`, sweep: false });
    expect(nt.store).toMatchObject({ name: `file:${path}`, traits: { hosts: "one", survives: "power-loss" } });
    await nt.close();
    for (const wrong of [undefined, {}, { path: " " }])
      expect(() => fileStore(wrong as never)).toThrow(/give the path of a file, such as ".\/ledger.jsonl"/);
    expect(() => fileStore({ path, busy: 1 } as never)).toThrow(/there is no option "busy"\. The options are: path/);
  });

  it("a backup that is older than what was acknowledged is refused, and taken once its id file is removed", async () => {
    const path = await filled(["nt1_a"]);
    const backup = readFileSync(path);
    const { store } = open({ path });
    await store.write([put("nt1_b")]);
    await store.close();
    writeFileSync(path, backup);
    await expect(open({ path }).store.read(["nt1_a"])).rejects.toThrow(
      /the backup you mean to go on with, remove .*\.id/,
    );
    rmSync(`${path}.id`);
    expect((await open({ path }).store.read(["nt1_a", "nt1_b"])).map((row) => row?.version)).toEqual([1, undefined]);
  });
});

describe("compaction", () => {
  it("keeps every record and its version, drops what was overwritten or removed, and others follow", async () => {
    const { path, store } = open({ compactAfterLines: 10 });
    const other = open({ path }).store;
    for (let round = 0; round < 20; round += 1) {
      const [current] = await other.read(["nt1_a"]);
      const record = sampleRecord({ key: "nt1_a", attempt: round + 1 });
      await store.write([{ record, expected: current?.version ?? null }]);
    }
    await store.write([put("nt1_b")]);
    const [before] = await store.read(["nt1_a"]);
    await store.close();
    expect(linesOf(path).length).toBeLessThan(16);
    expect(JSON.parse(linesOf(path)[0] as string).compacted).toBeGreaterThan(0);
    const [after] = await other.read(["nt1_a"]);
    expect(after).toEqual(before);
    expect(after?.record.attempt).toBe(20);
    expect((await open({ path }).store.stats()).total).toBe(2);
  });

  it("a disk without room for the second file: the ledger goes on in the old one", async () => {
    const disk: Disk = {
      ...localDisk,
      open: (path, how) => {
        if (path.endsWith("ledger.jsonl.new") && existsSync(path.slice(0, -4)))
          throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
        return localDisk.open(path, how);
      },
    };
    const { path, store } = open({ disk, compactAfterLines: -100 });
    for (const key of ["nt1_a", "nt1_b", "nt1_c"]) await store.write([put(key)]);
    await store.close();
    expect(await open({ path }).store.read(["nt1_a", "nt1_c"])).toMatchObject([{ version: 1 }, { version: 3 }]);
  });
});

describe("close()", () => {
  /** A disk whose next sync waits until it is let go. */
  function gatedDisk() {
    const gate = { armed: false, reached: () => {}, open: () => {} };
    const reached = new Promise<void>((done) => {
      gate.reached = done;
    });
    const opened = new Promise<void>((done) => {
      gate.open = done;
    });
    const disk: Disk = {
      ...localDisk,
      sync: async (file) => {
        if (gate.armed) {
          gate.armed = false;
          gate.reached();
          await opened;
        }
        await localDisk.sync(file);
      },
    };
    return { disk, gate, reached };
  }

  it.each([1_000, -1_000_000])(
    "a call that began before it is answered with what happened (compactAfterLines %i)",
    async (compactAfterLines) => {
      const { disk, gate, reached } = gatedDisk();
      const { path, store } = open({ disk, compactAfterLines });
      await store.write([put("nt1_a")]);
      gate.armed = true;
      const calls = [
        store.write([put("nt1_b")]),
        store.write([put("nt1_c")]),
        store.read(["nt1_a"]),
        store.list({ limit: 5 }),
        store.stats(),
        store.lease({ holder: "h", limit: 1, leaseMs: 1_000, to: "sent" }),
      ];
      await reached;
      const closed = store.close();
      const again = store.close();
      await expect(store.write([put("nt1_d")])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      gate.open();
      expect(await Promise.all(calls)).toMatchObject([
        [{ ok: true }],
        [{ ok: true }],
        [{ record: { key: "nt1_a" } }],
        { items: expect.any(Array) },
        { total: expect.any(Number) },
        expect.any(Array),
      ]);
      await Promise.all([closed, again]);
      expect(await open({ path }).store.read(["nt1_b", "nt1_c", "nt1_d"])).toMatchObject([{}, {}, null]);
    },
  );
});

describe("F14: a last line that was cut short", () => {
  const torn = [
    '{"rev":4,"commit":4,"key":"nt1_d","sta',
    '{"rev":4,"commit":4,"key":"x","crc":"00000000"}\n',
    "\0\0\0\0\n\0",
  ];

  it.each(torn)("is set aside and cut off by the next writer: %j", async (tail) => {
    const path = await filled(["nt1_a", "nt1_b", "nt1_c"]);
    appendFileSync(path, tail);
    const { store } = open({ path });
    expect((await store.stats()).total).toBe(3);
    await store.write([put("nt1_d")]);
    expect(readFileSync(`${path}.torn`, "utf8")).toBe(tail);
    expect((await open({ path }).store.stats()).total).toBe(4);
    expect(linesOf(path).length).toBe(5);
  });

  it("whole lines that nobody acknowledged are taken over, once they are synced", async () => {
    const path = await filled(["nt1_a"]);
    const mark = readFileSync(`${path}.id`);
    const { store } = open({ path });
    await store.write([put("nt1_b")]);
    await store.close();
    // As if the writer had died between its sync and its answer.
    writeFileSync(`${path}.id`, mark);
    expect((await open({ path }).store.read(["nt1_b"]))[0]?.version).toBe(2);
    expect(readFileSync(`${path}.id`, "utf8")).not.toBe(mark.toString());
  });
});

describe("F13: a ledger that is not what it was", () => {
  const keys = ["nt1_a", "nt1_b", "nt1_c", "nt1_d"];

  it("every flipped bit is noticed, the last line's too", async () => {
    const path = await filled(keys);
    const sound = readFileSync(path);
    const missed: number[] = [];
    for (let at = 0; at < sound.length; at += 7) {
      const bytes = Buffer.from(sound);
      bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
      writeFileSync(path, bytes);
      const store = fileStore({ path });
      const seen = await store.read(keys).then(
        (rows) => rows.every((row) => row !== null),
        () => "refused",
      );
      await store.close();
      if (seen !== "refused") missed.push(at);
    }
    expect(missed).toEqual([]);
  });

  it("cut at every line: refused, because what was acknowledged is known beside it", async () => {
    const path = await filled(keys);
    const sound = readFileSync(path);
    const ends = [...sound.entries()].filter(([, byte]) => byte === 10).map(([at]) => at + 1);
    for (const end of ends.slice(0, -1)) {
      writeFileSync(path, sound.subarray(0, end));
      await expect(fileStore({ path }).read(keys)).rejects.toThrow(/is shorter than it was.*Restore it from a backup/);
    }
  });

  it("gone, empty, another one, not a ledger, from a newer release: refused, and said what to do", async () => {
    const path = await filled(keys);
    const other = await filled(["nt1_x", "nt1_y", "nt1_z", "nt1_0", "nt1_1"]);
    const refused = async (pattern: RegExp) => {
      const store = fileStore({ path });
      await expect(store.read(keys)).rejects.toThrow(pattern);
      await expect(store.write([put("nt1_new")])).rejects.toThrow(pattern);
      await store.close();
    };
    writeFileSync(path, readFileSync(other));
    await refused(/is not the ledger that .*ledger.jsonl.id beside it belongs to/);
    truncateSync(path, 0);
    await refused(/is empty, but .*\.id beside it says that there was one/);
    rmSync(path);
    await refused(/is gone, but .*remove .*ledger.jsonl.id too/);
    writeFileSync(path, '{"my":"log"}\n');
    await refused(/is damaged: its first line/);
    rmSync(`${path}.id`);
    await refused(/is not a ledger of nevertwice.*nevertwice import/);
  });

  it("a line taken out of the middle, or two that changed places, are noticed", async () => {
    const path = await filled(keys);
    const [header, a, b, c, d] = linesOf(path);
    for (const lines of [
      [header, a, c, d],
      [header, a, c, b, d],
      [header, b, c, d],
    ]) {
      writeFileSync(path, lines.map((line) => `${line}\n`).join(""));
      await expect(fileStore({ path }).read(keys)).rejects.toThrow(/damaged.*missing or out of order/);
    }
  });

  it("removed under an open store: every call is refused from then on", async () => {
    const { path, store } = open();
    await store.write([put("nt1_a")]);
    rmSync(path);
    await expect(store.read(["nt1_a"])).rejects.toThrow(/is gone/);
    await expect(store.write([put("nt1_b")])).rejects.toThrow(/is gone/);
  });

  it("a newer format is refused, and left as it is", async () => {
    const { encodeHeader } = await import("./line.ts");
    const path = join(temporaryFolder(), "ledger.jsonl");
    writeFileSync(path, encodeHeader({ nevertwice: "ledger", format: 2, id: "x", compacted: 0, rev: 0 }));
    await expect(fileStore({ path }).read([])).rejects.toThrow(/newer release \(format 2; this one knows 1\)/);
  });
});

describe("F11: the disk refuses", () => {
  const failing = (call: "write" | "sync", code: string, when: (nth: number) => boolean) => {
    let nth = 0;
    const fail = () => {
      nth += 1;
      if (when(nth)) throw Object.assign(new Error(`${code}: the disk refuses`), { code });
    };
    const armed = { on: false };
    const disk: Disk = {
      ...localDisk,
      write: (...args) => {
        if (armed.on && call === "write") {
          localDisk.write(args[0], args[1], args[2].subarray(0, 20));
          fail();
        }
        localDisk.write(...args);
      },
      sync: async (file) => {
        if (armed.on && call === "sync") fail();
        await localDisk.sync(file);
      },
    };
    return { disk, armed };
  };

  it.each([
    ["write", "ENOSPC"],
    ["sync", "EIO"],
  ] as const)(
    "%s fails with %s: STORE_UNAVAILABLE, nothing is kept, and it goes on when the disk does",
    async (call, code) => {
      const { disk, armed } = failing(call, code, (nth) => nth === 1);
      const { path, store } = open({ disk });
      await store.write([put("nt1_a")]);
      armed.on = true;
      await expect(store.write([put("nt1_b")])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(await store.read(["nt1_b"])).toEqual([null]);
      expect(linesOf(path).length).toBe(2);
      expect(await store.write([put("nt1_b")])).toEqual([{ ok: true, version: 2 }]);
      expect((await open({ path }).store.stats()).total).toBe(2);
    },
  );
});

describe("one flipped bit in a line", () => {
  const keys = ["nt1_a", "nt1_b", "nt1_c", "nt1_d"];

  it("costs that record alone, wherever the bit is; the line can be set aside", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const first = fileStore({ path });
    for (const key of keys) await first.write([put(key)]);
    await first.close();
    const sound = readFileSync(path);
    const start = sound.indexOf('"key":"nt1_b"');
    // In the key itself, in what queries look at, in the rest, in the checksum.
    for (const at of [start + 11, start + 30, sound.indexOf('"fence"', start), sound.indexOf('"crc"', start) + 9]) {
      const bytes = Buffer.from(sound);
      bytes[at] = (bytes[at] as number) ^ 2;
      writeFileSync(path, bytes);
      const store = fileStore({ path });
      await expect(store.read(["nt1_b"])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", key: "nt1_b" });
      expect((await store.read(["nt1_a", "nt1_c", "nt1_d"])).map((one) => one?.record.key)).toEqual([
        "nt1_a",
        "nt1_c",
        "nt1_d",
      ]);
      expect(await store.list({ limit: 10 })).toMatchObject({ items: { length: 3 }, damaged: [{ key: "nt1_b" }] });
      expect(await store.inspect?.()).toContainEqual(expect.objectContaining({ name: "checksums", ok: false }));
      await store.close();
    }
    const store = fileStore({ path });
    await store.quarantine?.("nt1_b");
    expect(await store.read(keys)).toMatchObject([{}, null, {}, {}]);
    await store.close();
    const again = fileStore({ path });
    expect(await again.list({ limit: 10 })).not.toHaveProperty("damaged");
    await again.close();
  });

  it("is carried over by a compaction, and still known for whose it is", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const store = fileStore({ path, compactAfterLines: -1_000_000 });
    onTestFinished(() => store.close());
    await store.write([put("nt1_a")]);
    damage(path, "nt1_a");
    for (const key of ["nt1_b", "nt1_c"]) await store.write([put(key)]);
    const other = fileStore({ path });
    onTestFinished(() => other.close());
    await expect(other.read(["nt1_a"])).rejects.toMatchObject({ key: "nt1_a" });
    expect(await other.read(["nt1_b", "nt1_c"])).toMatchObject([{}, {}]);
  });
});
