/**
 * F11 on the JSONL ledger: a disk of one megabyte that fills up, at a call or in a compaction, and gets room again. A small
 * file system is mounted where that is allowed; elsewhere the store's own calls are counted and refused as it would.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, copyFileSync, existsSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../src/nevertwice.ts";
import { localDisk } from "../../src/stores/file/disk.ts";
import { type Disk, fileStore } from "../../src/stores/file/index.ts";
import { temporaryFolder } from "../support/each-store.ts";
import { until } from "../support/gate.ts";
import { smallDisk } from "../support/small-disk.ts";

const DISK_BYTES = 1024 * 1024;
const COMPACT_ALWAYS = -1_000_000;
const TEXT = "x".repeat(2_000);

function smallFolder(): { folder: string; disk: Disk; mounted: boolean } {
  const folder = temporaryFolder();
  const mount = ["-t", "tmpfs", "-o", `size=${DISK_BYTES}`, "nevertwice-test", folder];
  const mounted =
    spawnSync("mount", mount).status === 0 && statfsSync(folder).blocks * statfsSync(folder).bsize <= DISK_BYTES;
  if (mounted) onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  return { folder, disk: mounted ? localDisk : smallDisk(folder, DISK_BYTES).disk, mounted };
}

function program(path: string, disk: Disk, compactAfterLines = 1_000) {
  const effects = new Map<string, number>();
  const nt = nevertwice({ store: fileStore({ path, disk, compactAfterLines }), sweep: false });
  const note = nt.action("note", {
    key: ["id"],
    run: async ({ id }: { id: string }) => {
      effects.set(id, (effects.get(id) ?? 0) + 1);
      return { text: TEXT };
    },
  });
  onTestFinished(() => nt.close());
  return {
    nt,
    effects,
    call: (id: string) =>
      note.attempt({ id }, { wait: 0 }).then(
        (one) => one.status,
        (error) => error.code as string,
      ),
  };
}

const temporary = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".new"));

it("F11: calls fail closed while the disk is full, nothing is left behind, and they work again when there is room", async () => {
  const { folder, disk, mounted } = smallFolder();
  const path = `${folder}/ledger.jsonl`;
  console.log(
    mounted ? "on a mounted file system of 1 MB" : "no file system may be mounted here: refused by the store's disk",
  );
  writeFileSync(`${folder}/filler`, Buffer.alloc(DISK_BYTES / 4));
  const { nt, effects, call } = program(path, disk, COMPACT_ALWAYS);
  const told = new Map<string, string>();
  for (let i = 0; i < 1_000 && told.get(`${i - 1}`) !== "STORE_UNAVAILABLE"; i += 1) {
    told.set(`${i}`, await call(`${i}`));
  }
  // A compaction may still be at work.
  await until(() => temporary(folder).length === 0, "a folder without temporary files");
  const refused = [...told].filter(([, status]) => status === "STORE_UNAVAILABLE").map(([id]) => id);
  const done = [...told].filter(([, status]) => status === "done").map(([id]) => id);
  expect(refused.length).toBe(1);
  expect(done.length).toBeGreaterThan(50);
  expect(refused.map((id) => effects.get(id) ?? 0)).toEqual([0]);
  // A program that starts on the full disk reads what was done.
  const other = program(path, disk);
  expect(await other.call(done[0] as string)).toBe("done");
  rmSync(`${folder}/filler`);
  // The engine asks a store that was down only now and then.
  await until(async () => (await call(refused[0] as string)) === "done");
  // The last one was done when there was no room left to say so: the program that has run it keeps that, and writes it later.
  for (const id of done) await until(async () => (await other.call(id)) === "done");
  expect([...effects.values()].every((count) => count === 1)).toBe(true);
  expect([...other.effects.values()]).toEqual([]);
  await nt.close();
});

it("F11: what a killed compaction left on a full disk does not keep it full", async () => {
  const { folder, disk } = smallFolder();
  const path = `${folder}/ledger.jsonl`;
  const { effects, call } = program(path, disk);
  for (let i = 0; i < 20; i += 1) expect(await call(`${i}`)).toBe("done");
  copyFileSync(path, `${path}.new`);
  fill(`${path}.new`, folder);
  expect(await call("next")).toBe("done");
  expect(existsSync(`${path}.new`)).toBe(false);
  fill(`${path}.new`, folder, path);
  const later = program(path, disk);
  expect(await later.call("0")).toBe("done");
  expect(await later.call("last")).toBe("done");
  expect(existsSync(`${path}.new`)).toBe(false);
  expect([...effects.values(), ...later.effects.values()].every((count) => count === 1)).toBe(true);
});

/** Until nothing more fits, on a disk of its own or by the count of the test's disk. */
function fill(path: string, folder: string, from?: string): void {
  if (from !== undefined) copyFileSync(from, path);
  const used = () => readdirSync(folder).reduce((sum, name) => sum + localDisk.facts(`${folder}/${name}`)!.size, 0);
  try {
    while (used() < DISK_BYTES) appendFileSync(path, Buffer.alloc(Math.min(4_096, DISK_BYTES - used())));
  } catch (error) {
    expect(error).toMatchObject({ code: "ENOSPC" });
  }
}
