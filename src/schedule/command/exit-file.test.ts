/** The file that keeps a command's exit code: complete or not there, and evidence of one attempt only. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { memoryStore } from "../../stores/memory.ts";
import { sampleRecord } from "../../testing/index.ts";
import { makeExitFile, NOT_BEGUN, readExitFile, removeExitFile, sweepExitFiles } from "./exit-file.ts";
import { GatedChild } from "./gated-child.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "nevertwice-exits-"));
});
afterEach(() => {
  chmodSync(home, 0o700);
  rmSync(home, { recursive: true, force: true });
});

const KEY = `nt1_${"0".repeat(52)}`;
const attempt = { key: KEY, fence: 3 };
const folder = (mode = 0o600) => ({ path: join(home, "ledger.db.exits"), mode });
const token = "0123456789abcdef";

async function ran(script: string, exitFile: string) {
  const child = await GatedChild.start({
    command: ["sh", "-c", script],
    // Not where the shell finds what it needs for itself.
    env: { PATH: process.env.PATH },
    cwd: home,
    stdout: () => {},
    stderr: () => {},
    monotonic: () => performance.now(),
    exitFile,
    outlives: true,
  });
  return child.run();
}

describe("R2: an exit file", () => {
  it("says that the command was not begun, where nobody told its shell to", async () => {
    const { path } = makeExitFile(folder(), attempt, token);
    const options = { command: ["touch", "begun"], env: { PATH: process.env.PATH }, cwd: home, exitFile: path };
    const sinks = { stdout: () => {}, stderr: () => {}, monotonic: () => performance.now() };
    const child = await GatedChild.start({ ...options, ...sinks });
    await child.abandon();
    expect(readExitFile(path, attempt)).toBe(NOT_BEGUN);
    expect(readExitFile(path, { ...attempt, fence: 4 })).toBe(null);
    expect(existsSync(join(home, "begun"))).toBe(false);
  });

  it.each([
    ["exit 0", 0],
    ["exit 7", 7],
    ["kill -KILL $$", 137],
  ])("%s is in it when the command has ended, and not before", async (script, code) => {
    const { path } = makeExitFile(folder(), attempt, token);
    expect(readExitFile(path, attempt)).toBe(null);
    await ran(script, path);
    expect(readExitFile(path, attempt)).toMatchObject({ exitCode: code });
    expect(readdirSync(folder().path)).toEqual([basename(path)]);
  });

  it("of another fence or key is no evidence, nor is one that was cut short or is something else", async () => {
    const { path } = makeExitFile(folder(), attempt, token);
    await ran("exit 0", path);
    expect(readExitFile(path, { ...attempt, fence: 4 })).toBe(null);
    expect(readExitFile(path, { ...attempt, key: `nt1_${"1".repeat(52)}` })).toBe(null);
    for (const text of ["", "  0", `??? ${KEY} 3 1\n`, `  0 ${KEY} 3`, "x".repeat(2_000)]) {
      writeFileSync(path, text);
      expect(readExitFile(path, attempt), text.slice(0, 20)).toBe(null);
    }
    rmSync(path);
    mkdirSync(path);
    expect(readExitFile(path, attempt)).toBe(null);
  });

  it("is found beside the ledger where that is mounted at another place", async () => {
    const { path } = makeExitFile(folder(), attempt, token);
    await ran("exit 0", path);
    const elsewhere = join("/not/here", basename(path));
    expect(readExitFile(elsewhere, attempt)).toBe(null);
    expect(readExitFile(elsewhere, attempt, folder())).toMatchObject({ exitCode: 0 });
  });

  it.each([
    [0o600, 0o700],
    [0o660, 0o770],
    [0o640, 0o750],
  ])("is for whom the ledger is: mode %o, its folder %o", (mode, folderMode) => {
    const { path } = makeExitFile(folder(mode), attempt, token);
    expect(statSync(`${path}.open`).mode & 0o777).toBe(mode);
    expect(statSync(folder().path).mode & 0o777).toBe(folderMode);
  });

  it("that cannot be made says so before the command runs", () => {
    writeFileSync(folder().path, "");
    expect(() => makeExitFile(folder(), attempt, token)).toThrow(/EEXIST|ENOTDIR/);
  });

  it("whose folder is removed while the command runs changes nothing about the command", async () => {
    const { path } = makeExitFile(folder(), attempt, token);
    rmSync(folder().path, { recursive: true });
    expect(await ran("exit 7", path)).toMatchObject({ exitCode: 7 });
  });

  it("goes with its result when it is removed", async () => {
    const { path, resultPath } = makeExitFile(folder(), attempt, token);
    await ran(`echo 1 > '${resultPath}'`, path);
    removeExitFile(path);
    expect(readdirSync(folder().path)).toEqual([]);
  });
});

describe("R2: the sweep of exit files", () => {
  const DAY_MS = 24 * 60 * 60_000;
  const aged = (path: string, ageMs: number) => {
    const at = new Date(Date.now() - ageMs);
    utimesSync(path, at, at);
  };

  it.each([
    ["of an attempt under way", { state: "sent", fence: 3 }, DAY_MS, true],
    ["of an attempt in doubt", { state: "unknown", fence: 3 }, DAY_MS, true],
    ["of an attempt in doubt that another followed", { state: "unknown", fence: 4 }, DAY_MS, false],
    ["of a slot that is settled", { state: "confirmed", fence: 3 }, DAY_MS, false],
    ["of a slot that is settled, just now", { state: "confirmed", fence: 3 }, 1_000, true],
    ["of a slot without a record", null, DAY_MS, true],
    ["of a slot without a record, for a month", null, 31 * DAY_MS, false],
  ] as const)("a file %s", async (_, record, ageMs, stays) => {
    const store = memoryStore();
    if (record !== null) await store.write([{ record: sampleRecord({ key: KEY, ...record }), expected: null }]);
    const { path } = makeExitFile(folder(), attempt, token);
    aged(`${path}.open`, ageMs);
    writeFileSync(join(folder().path, "something-else"), "");
    await sweepExitFiles(store, folder());
    expect(existsSync(`${path}.open`)).toBe(stays);
    expect(existsSync(join(folder().path, "something-else"))).toBe(true);
  });
});
