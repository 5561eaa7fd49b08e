/** One ledger, whatever path leads to it: its lock, its id file and its compaction belong to the file. */
import {
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { join, relative } from "node:path";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { steeredClock, temporaryFolder } from "../../../test/support/each-store.ts";
import type { Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { fileStore } from "../file/index.ts";

const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

const KINDS = [
  { kind: "file", name: "ledger.jsonl", make: (path: string): Store => fileStore({ path, compactAfterLines: -1_000 }) },
  { kind: "sqlite", name: "ledger.db", make: (path: string): Store => sqliteStore({ path }) },
];

describe.each(KINDS)("$kind", ({ name, make }) => {
  function layout() {
    const folder = realpathSync(temporaryFolder());
    mkdirSync(join(folder, "data"));
    const path = join(folder, "data", name);
    const links = {
      absolute: join(folder, "link"),
      relative: join(folder, "data", "current"),
      folder: join(folder, "linked", name),
    };
    symlinkSync(path, links.absolute);
    symlinkSync(name, links.relative);
    symlinkSync("data", join(folder, "linked"));
    return { folder, path, links };
  }

  function open(path: string): Store {
    const store = make(path);
    onTestFinished(() => store.close());
    return store;
  }

  const pathsOf = ({ folder, path, links }: ReturnType<typeof layout>) => [
    path,
    links.absolute,
    links.relative,
    links.folder,
    join(folder, "data", "other").concat("/../", name),
    `${path}/`,
    relative(process.cwd(), path),
  ];

  it("every path leads to one ledger, with one lock and one id file, beside the file itself", async () => {
    const at = layout();
    const stores = pathsOf(at).map(open);
    const keys = Array.from({ length: 40 }, (_, i) => `nt1_${i}`);
    const won = await Promise.all(
      keys.map(async (key) => {
        const results = await Promise.all(stores.map((store) => store.write([put(key)])));
        return results.filter(([result]) => result?.ok).length;
      }),
    );
    expect(won).toEqual(keys.map(() => 1));
    for (const store of stores) {
      const rows = await store.read(keys);
      expect(rows.map((row) => row?.record.key)).toEqual(keys);
    }
    expect(lstatSync(at.links.absolute).isSymbolicLink()).toBe(true);
    expect(lstatSync(at.links.relative).isSymbolicLink()).toBe(true);
    expect(readdirSync(at.folder).sort()).toEqual(["data", "link", "linked"]);
    expect(readdirSync(join(at.folder, "data")).filter((one) => one.startsWith("current"))).toEqual(["current"]);
    expect(existsSync(`${at.path}.id`)).toBe(true);
  });

  it("a link to a file that does not exist yet: the ledger is made where the link leads", async () => {
    const { folder, path, links } = layout();
    await open(links.absolute).write([put("nt1_a")]);
    expect(lstatSync(path).isFile()).toBe(true);
    expect(lstatSync(links.absolute).isSymbolicLink()).toBe(true);
    symlinkSync(join(folder, "later", name), join(folder, "far"));
    await open(join(folder, "far")).write([put("nt1_b")]);
    expect(lstatSync(join(folder, "later", name)).isFile()).toBe(true);
  });

  it("links that lead to each other are refused with the path", async () => {
    const folder = realpathSync(temporaryFolder());
    symlinkSync("b", join(folder, "a"));
    symlinkSync("a", join(folder, "b"));
    await expect(open(join(folder, "a")).read(["nt1_a"])).rejects.toThrow(/the ledger .*\/a .*ELOOP/);
  });

  it("a relative path means the folder in which the store was made", async () => {
    const { folder, path } = layout();
    const cwd = process.cwd();
    onTestFinished(() => process.chdir(cwd));
    process.chdir(folder);
    const store = open(`data/${name}`);
    process.chdir("/");
    await store.write([put("nt1_a")]);
    expect(await open(path).read(["nt1_a"])).toMatchObject([{}]);
  });

  it("the id file of a lost ledger is found through a link", async () => {
    const { path, links } = layout();
    const first = open(path);
    await first.write([put("nt1_a")]);
    await first.close();
    rmSync(path);
    await expect(open(links.absolute).read(["nt1_a"])).rejects.toThrow(/is gone, but .*\.id beside it/);
  });

  it("a second name by a hard link is refused at open, with what to do", async () => {
    const { folder, path } = layout();
    const first = open(path);
    await first.write([put("nt1_a")]);
    linkSync(path, join(folder, "second"));
    for (const one of [path, join(folder, "second")]) {
      const store = open(one);
      await expect(store.read(["nt1_a"])).rejects.toThrow(/has 2 names \(hard links\).*Nothing was run/);
      await expect(store.write([put("nt1_b")])).rejects.toMatchObject({ code: "CONFIG" });
    }
    rmSync(join(folder, "second"));
    expect(await open(path).read(["nt1_a", "nt1_b"])).toMatchObject([{}, null]);
  });

  const swaps: readonly (readonly [what: string, swap: (at: ReturnType<typeof layout>) => void])[] = [
    [
      "to a copy of the ledger",
      ({ folder, path, links }) => {
        copyFileSync(path, join(folder, "copy"));
        rmSync(links.absolute);
        symlinkSync(join(folder, "copy"), links.absolute);
      },
    ],
    [
      "to a file that does not exist",
      ({ folder, links }) => {
        rmSync(links.absolute);
        symlinkSync(join(folder, "nothing"), links.absolute);
      },
    ],
    ["nowhere: it was removed", ({ links }) => rmSync(links.absolute)],
    [
      "to the ledger, which was moved",
      ({ folder, path, links }) => {
        renameSync(path, join(folder, "moved"));
        rmSync(links.absolute);
        symlinkSync(join(folder, "moved"), links.absolute);
      },
    ],
  ];

  it.each(swaps)("a link that leads elsewhere while the ledger is open is noticed: %s", async (_what, swap) => {
    const at = layout();
    const store = open(at.links.absolute);
    await store.write([put("nt1_a")]);
    swap(at);
    const before = readdirSync(at.folder);
    await refusedSoon(store);
    expect(readdirSync(at.folder)).toEqual(before);
  });

  it("a ledger that was moved, with a link left in its place, is noticed", async () => {
    const { folder, path } = layout();
    const store = open(path);
    await store.write([put("nt1_a")]);
    renameSync(path, join(folder, "moved"));
    symlinkSync(join(folder, "moved"), path);
    await refusedSoon(store);
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
  });
});

/** SQLite looks at its file four times a second at most. */
async function refusedSoon(store: Store): Promise<void> {
  for (let call = 0; call < 400; call += 1) {
    const outcome = await store.write([put(`nt1_after_${call}`)]).then(
      () => null,
      (error: Error) => error,
    );
    if (outcome !== null) {
      expect(outcome).toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(outcome.message).toMatch(/no longer leads to|was removed or replaced|is gone/);
      expect(outcome.message).toMatch(/Restore|restore|start the program again/);
      return;
    }
    await new Promise((done) => setTimeout(done, 5));
  }
  throw new Error("400 writes after the swap were accepted");
}

describe("file: what lies beside it", () => {
  it.each(["lock", "id"])("the .%s file, removed under a running program, is made again for everybody", async (end) => {
    const path = join(realpathSync(temporaryFolder()), "ledger.jsonl");
    const options = { path, compactAfterLines: -1_000 };
    const first = fileStore(options);
    onTestFinished(() => first.close());
    await first.write([put("nt1_a")]);
    rmSync(`${path}.${end}`);
    const second = fileStore(options);
    onTestFinished(() => second.close());
    const keys = Array.from({ length: 40 }, (_, i) => `nt1_${i}`);
    for (const key of keys) {
      const results = await Promise.all([first, second].map((store) => store.write([put(key)])));
      expect(results.map(([one]) => one?.ok).sort()).toEqual([false, true]);
    }
    for (const store of [first, second]) {
      const rows = await store.read(keys);
      expect(rows.every((row) => row !== null)).toBe(true);
    }
    expect(existsSync(`${path}.${end}`)).toBe(true);
  });
});

describe("file: compaction", () => {
  it("does not replace a file that has a second name, and works again when that is removed", async () => {
    const folder = realpathSync(temporaryFolder());
    const path = join(folder, "ledger.jsonl");
    const clock = steeredClock();
    const store = fileStore({ path, clock, compactAfterLines: 5 });
    onTestFinished(() => store.close());
    const rewrite = async (times: number) => {
      for (let i = 0; i < times; i += 1) {
        const [current] = await store.read(["nt1_a"]);
        await store.write([{ record: sampleRecord({ key: "nt1_a" }), expected: current?.version ?? null }]);
      }
    };
    await rewrite(1);
    linkSync(path, join(folder, "second"));
    await rewrite(20);
    expect(readFileSync(path).equals(readFileSync(join(folder, "second")))).toBe(true);
    expect(readdirSync(folder)).not.toContain("ledger.jsonl.new");
    rmSync(join(folder, "second"));
    clock.advance(600_000);
    await rewrite(1);
    await store.close();
    expect(readFileSync(path, "utf8").split("\n").length).toBeLessThan(10);
  });
});
