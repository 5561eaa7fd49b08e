/** What lies on the disk is for the user who runs the program, whatever the umask. */
import { execFile } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileStore } from "nevertwice/file";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { defaultLocation } from "../sqlite/location.ts";

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const modesIn = (folder: string) =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, mode(join(folder, name))]));

// A process of its own, because the umask is the whole process's.
const PROGRAM = `
  process.umask(0);
  const { nevertwice } = await import("nevertwice");
  const { readdirSync, statSync } = await import("node:fs");
  const nt = nevertwice({ ...(process.argv[1] && { store: process.argv[1] }), sweep: false });
  await nt.once("mail", ["a"], () => ({ sent: true }));
  const modes = (folder) => Object.fromEntries(readdirSync(folder).map((name) => [name, (statSync(folder + "/" + name).mode & 0o777).toString(8)]));
  console.log(JSON.stringify({ folder: (statSync(process.argv[2]).mode & 0o777).toString(8), files: modes(process.argv[2]) }));
  await nt.close();
`;

async function modesOf(store: string, folder: string, cwd?: string) {
  const root = new URL("../../..", import.meta.url).pathname;
  const program = PROGRAM.replace('import("nevertwice")', `import(${JSON.stringify(`${root}dist/index.js`)})`);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", program, store, folder],
    { cwd: cwd ?? root },
  );
  return JSON.parse(stdout) as { folder: string; files: Record<string, string> };
}

describe("with umask 0, files are 0600 and folders 0700", () => {
  it("SQLite: ledger, log, shared memory and id", async () => {
    const folder = join(temporaryFolder(), "new", "deeper");
    const found = await modesOf(`sqlite:${join(folder, "ledger.db")}`, folder);
    expect(found.folder).toBe("700");
    expect(found.files).toEqual({
      "ledger.db": "600",
      "ledger.db-wal": "600",
      "ledger.db-shm": "600",
      "ledger.db.id": "600",
    });
    expect(mode(join(folder, ".."))).toBe("700");
  });

  it("the default folder beside package.json", async () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    const { folder, files } = await modesOf("", join(root, ".nevertwice"), root);
    expect(folder).toBe("700");
    expect(files).toMatchObject({ "ledger.db": "600", "ledger.db-wal": "600", "ledger.db.id": "600" });
  });

  it("a file: ledger, its id and its lock", async () => {
    const folder = join(temporaryFolder(), "new");
    const found = await modesOf(`file:${join(folder, "ledger.jsonl")}`, folder);
    expect(found.folder).toBe("700");
    expect(Object.keys(found.files).sort()).toEqual(["ledger.jsonl", "ledger.jsonl.id", "ledger.jsonl.lock"]);
    expect(new Set(Object.values(found.files))).toEqual(new Set(["600"]));
  });

  it("a folder that was there keeps its mode", async () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    const found = await modesOf(`sqlite:${join(folder, "ledger.db")}`, folder);
    expect(found).toMatchObject({ folder: "755", files: { "ledger.db": "600" } });
  });
});

it("what is set aside of a torn commit is for the owner too", async () => {
  const path = join(temporaryFolder(), "ledger.jsonl");
  const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });
  const first = fileStore({ path });
  await first.write([put("nt1_a")]);
  await first.close();
  appendFileSync(path, '{"rev":9,"half a line');
  const store = fileStore({ path });
  await store.write([put("nt1_b")]);
  await store.close();
  expect(mode(`${path}.torn`)).toBe("600");
});

describe("a ledger that is shared on purpose stays shared", () => {
  const put = (key: string) => ({ record: sampleRecord({ key }), expected: null });

  it("file: compaction and a new lock keep the ledger's mode", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const first = fileStore({ path });
    await first.write([put("nt1_a")]);
    await first.close();
    expect(new Set(Object.values(modesIn(join(path, ".."))))).toEqual(new Set(["600"]));
    for (const name of readdirSync(join(path, ".."))) chmodSync(join(path, "..", name), 0o660);
    const store = fileStore({ path, compactAfterLines: 1 });
    const before = statSync(path).ino;
    let expected: number | null = null;
    for (let i = 0; i < 200 && statSync(path).ino === before; i += 1) {
      const [result] = await store.write([{ record: sampleRecord({ key: "nt1_b", attempt: i }), expected }]);
      expected = result?.ok ? result.version : expected;
    }
    await store.close();
    expect(statSync(path).ino).not.toBe(before);
    expect(new Set(Object.values(modesIn(join(path, ".."))))).toEqual(new Set(["660"]));
  });

  it("SQLite: the log and the shared memory get the ledger's mode", async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const first = sqliteStore({ path });
    await first.write([put("nt1_a")]);
    await first.close();
    chmodSync(path, 0o660);
    const store = sqliteStore({ path });
    await store.write([put("nt1_b")]);
    expect(mode(`${path}-wal`)).toBe("660");
    await store.close();
  });
});

it("doctor names the files that others can read, and leaves them as they are", async () => {
  const cli = new CliLedger();
  onTestFinished(() => cli.close());
  writeFileSync(join(cli.folder, "package.json"), "{}");
  await cli.program().once("mail", ["a"], () => 1);
  const healthy = await cli.run(["doctor"]);
  expect(healthy).toMatchObject({ code: 0, out: expect.stringMatching(/permissions +only its owner can read it/) });
  chmodSync(cli.path, 0o644);
  const { code, out } = await cli.run(["doctor"]);
  expect(code).toBe(0);
  expect(out).toMatch(/others than its owner can read or write ledger\.db/);
  expect(out.replace(/\s+/g, " ")).toMatch(/chmod 600 /);
  expect(mode(cli.path)).toBe("644");
});

describe("a .nevertwice folder of another user", () => {
  const me = process.getuid?.() ?? 0;
  const stranger = 12_345;
  // Only root can give a folder away; anybody else looks at his own as somebody else.
  const looks = me === 0 ? me : stranger;
  const giveAway = (path: string) => me === 0 && lchownSync(path, stranger, stranger);
  const look = (cwd: string) => defaultLocation({ cwd, env: {}, platform: "linux", home: "/home/ana", uid: looks });
  const state = "/home/ana/.local/state/nevertwice/ledger.db";

  it("above this folder is passed over, and named", () => {
    const root = temporaryFolder();
    const planted = join(root, ".nevertwice");
    mkdirSync(planted);
    mkdirSync(join(root, "below"));
    giveAway(planted);
    for (const cwd of [root, join(root, "below")]) {
      expect(look(cwd)).toMatchObject({ path: state, foreign: [planted] });
    }
  });

  it("a symlink of another user is passed over, and one to another user's folder too", () => {
    const [root, target] = [temporaryFolder(), join(temporaryFolder(), "target")];
    mkdirSync(target);
    symlinkSync(target, join(root, ".nevertwice"));
    giveAway(join(root, ".nevertwice"));
    expect(look(root)).toMatchObject({ path: state, foreign: [join(root, ".nevertwice")] });
    const other = temporaryFolder();
    symlinkSync(target, join(other, ".nevertwice"));
    giveAway(target);
    expect(look(other)).toMatchObject({ path: state, foreign: [join(other, ".nevertwice")] });
  });

  it("a ledger of another user in it, or a link in its place, is not used either", () => {
    for (const make of [
      (path: string) => writeFileSync(path, ""),
      (path: string) => symlinkSync("/nowhere/at/all", path),
    ]) {
      const root = temporaryFolder();
      mkdirSync(join(root, ".nevertwice"));
      make(join(root, ".nevertwice", "ledger.db"));
      giveAway(join(root, ".nevertwice", "ledger.db"));
      expect(look(root)).toMatchObject({ path: state });
    }
  });

  it("beside the project's own package.json is refused: another ledger would not know what was done", () => {
    const root = temporaryFolder();
    writeFileSync(join(root, "package.json"), "{}");
    mkdirSync(join(root, ".nevertwice"));
    giveAway(join(root, ".nevertwice"));
    expect(() => look(root)).toThrow(/belongs to another user\. It is not used\. If you trust it, name it yourself/);
    expect(() => look(root)).toThrow(expect.objectContaining({ code: "CONFIG" }));
  });

  it("is used by its owner", () => {
    const root = temporaryFolder();
    mkdirSync(join(root, ".nevertwice"));
    giveAway(join(root, ".nevertwice"));
    const uid = me === 0 ? stranger : me;
    expect(defaultLocation({ cwd: root, env: {}, platform: "linux", home: "/home/ana", uid })).toEqual({
      path: join(root, ".nevertwice", "ledger.db"),
      why: "the nearest .nevertwice folder",
    });
  });
});
