/**
 * F10 on the JSONL ledger: the power goes. A disk of our own records every write, truncation, rename and sync that the
 * store makes. For each moment between two of them, what was not synced is dropped, kept, reordered and torn at sector
 * boundaries, the files are laid out as the disk would have them, and the real store opens what is left: nothing that was
 * acknowledged may be missing, and nothing that is there may be half.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Disk, fileStore } from "nevertwice/file";
import { sampleRecord } from "nevertwice/testing";
import { expect, it } from "vitest";
import { temporaryFolder } from "../support/each-store.ts";
import { effort, seeded, tried } from "../support/effort.mjs";

const SECTOR = 512;
const VARIANTS_A_MOMENT = effort(1, 4);

type Op =
  | { readonly kind: "write"; readonly file: number; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: "truncate"; readonly file: number; readonly size: number }
  | { readonly kind: "sync"; readonly file: number }
  | { readonly kind: "link"; readonly name: string; readonly file: number }
  | { readonly kind: "rename"; readonly from: string; readonly to: string }
  | { readonly kind: "remove"; readonly name: string }
  | { readonly kind: "sync-folder" }
  | { readonly kind: "acknowledged"; readonly key: string; readonly attempt: number }
  | { readonly kind: "removed"; readonly key: string };

/** A disk in memory that writes down what is done to it. The lock is SQLite's, in the real folder. */
function recordingDisk(folder: string, earlier: readonly Op[] = []) {
  const ops: Op[] = [...earlier];
  const files: Buffer[] = [];
  const names = new Map<string, number>();
  // A process that was killed leaves behind all that it wrote, synced or not.
  const left = new Map<number, Buffer>();
  for (const op of earlier) {
    if (op.kind === "link") files[op.file] = Buffer.alloc(0);
    applyWhole(left, op);
    applyEntry(names, op);
  }
  for (const [file, bytes] of left) files[file] = bytes;
  const facts = (file: number) => ({
    identity: `ram:${file}`,
    size: (files[file] as Buffer).length,
    links: 1,
    isLink: false,
    isFolder: false,
  });
  const disk: Disk = {
    exists: (path) => names.has(basename(path)),
    realPath: (path) => path,
    makeFolder: () => {},
    facts: (path) => (names.has(basename(path)) ? facts(names.get(basename(path)) as number) : null),
    factsOf: facts,
    open(path, how) {
      const name = basename(path);
      if (how === "open") {
        if (!names.has(name)) throw Object.assign(new Error(`ENOENT: ${name}`), { code: "ENOENT" });
        return names.get(name) as number;
      }
      files.push(Buffer.alloc(0));
      names.set(name, files.length - 1);
      ops.push({ kind: "link", name, file: files.length - 1 });
      return files.length - 1;
    },
    close: () => {},
    read: (file, at, length) => Buffer.from((files[file] as Buffer).subarray(at, at + length)),
    write(file, at, bytes) {
      files[file] = written(files[file] as Buffer, at, bytes);
      ops.push({ kind: "write", file, at, bytes: Buffer.from(bytes) });
    },
    truncate(file, size) {
      files[file] = (files[file] as Buffer).subarray(0, size);
      ops.push({ kind: "truncate", file, size });
    },
    sync: async (file) => void ops.push({ kind: "sync", file }),
    rename(from, to) {
      names.set(basename(to), names.get(basename(from)) as number);
      names.delete(basename(from));
      ops.push({ kind: "rename", from: basename(from), to: basename(to) });
    },
    remove(path) {
      names.delete(basename(path));
      ops.push({ kind: "remove", name: basename(path) });
    },
    freeBytes: () => null,
    syncFolder: () => void ops.push({ kind: "sync-folder" }),
  };
  mkdirSync(folder, { recursive: true });
  return { disk, ops };
}

function written(before: Buffer, at: number, bytes: Buffer): Buffer {
  const after = Buffer.alloc(Math.max(before.length, at + bytes.length));
  before.copy(after);
  bytes.copy(after, at);
  return after;
}

interface Layout {
  readonly files: Map<number, Buffer>;
  readonly names: Map<string, number>;
}

/** What lies on the disk when the power goes after `ops`: `random` decides over everything that was not synced. */
function afterPowerLoss(ops: readonly Op[], random: () => number): Layout {
  const files = new Map<number, Buffer>();
  const pending = new Map<number, Op[]>();
  const names = new Map<string, number>();
  let entries: Op[] = [];
  for (const op of ops) {
    if (op.kind === "write" || op.kind === "truncate") {
      const waiting = pending.get(op.file) ?? [];
      waiting.push(op);
      pending.set(op.file, waiting);
    } else if (op.kind === "sync") {
      for (const one of pending.get(op.file) ?? []) applyWhole(files, one);
      pending.delete(op.file);
    } else if (op.kind === "link" || op.kind === "rename" || op.kind === "remove") entries.push(op);
    else if (op.kind === "sync-folder") {
      for (const one of entries) applyEntry(names, one);
      entries = [];
    }
  }
  for (const waiting of pending.values()) tear(files, waiting, random);
  // Entries reach the disk in their order: a journal keeps that, and nothing else.
  const kept = Math.floor(random() * (entries.length + 1));
  for (const one of entries.slice(0, kept)) applyEntry(names, one);
  return { files, names };
}

function applyWhole(files: Map<number, Buffer>, op: Op): void {
  if (op.kind === "write") files.set(op.file, written(files.get(op.file) ?? Buffer.alloc(0), op.at, op.bytes));
  if (op.kind === "truncate") files.set(op.file, (files.get(op.file) ?? Buffer.alloc(0)).subarray(0, op.size));
}

function applyEntry(names: Map<string, number>, op: Op): void {
  if (op.kind === "link") names.set(op.name, op.file);
  if (op.kind === "remove") names.delete(op.name);
  if (op.kind !== "rename" || !names.has(op.from)) return;
  names.set(op.to, names.get(op.from) as number);
  names.delete(op.from);
}

/** In any order, each one dropped, kept, or torn into sectors of which some arrive and some are zeros. */
function tear(files: Map<number, Buffer>, waiting: readonly Op[], random: () => number): void {
  const shuffled = [...waiting].sort(() => random() - 0.5);
  for (const op of shuffled) {
    const fate = random();
    if (fate < 0.3) continue;
    if (fate < 0.6 || op.kind !== "write") applyWhole(files, op);
    else for (const part of sectors(op)) if (random() < 0.5) applyWhole(files, part);
  }
}

/** Cut where the disk's sectors end: each one is written whole or not at all. */
function sectors(op: Extract<Op, { kind: "write" }>): Op[] {
  const parts: Op[] = [];
  for (let from = 0; from < op.bytes.length; ) {
    const to = Math.min(op.bytes.length, from + SECTOR - ((op.at + from) % SECTOR));
    parts.push({ ...op, at: op.at + from, bytes: op.bytes.subarray(from, to) });
    from = to;
  }
  return parts;
}

/** A life: inserts, updates, batches, removals, compactions. */
async function live(folder: string, random: () => number): Promise<Op[]> {
  const { disk, ops } = recordingDisk(folder);
  const store = fileStore({ path: join(folder, "ledger.jsonl"), disk, compactAfterLines: 12 });
  for (let step = 0; step < 40; step += 1) {
    const keys = Array.from({ length: 1 + Math.floor(random() * 4) }, () => `nt1_${Math.floor(random() * 15)}`);
    const unique = [...new Set(keys)];
    const current = await store.read(unique);
    const puts = unique.map((key, i) => {
      const attempt = (current[i]?.record.attempt ?? 0) + 1;
      const gone = random() < 0.15;
      return {
        record: sampleRecord({
          key,
          attempt,
          state: gone ? "confirmed" : "sent",
          expiresAt: gone ? 1 : null,
          why: "x".repeat(Math.floor(random() * 900)),
        }),
        expected: current[i]?.version ?? null,
      };
    });
    const results = await store.write(puts);
    results.forEach((result, i) => {
      const { key, attempt } = (puts[i] as (typeof puts)[number]).record;
      if (result.ok) ops.push({ kind: "acknowledged", key, attempt });
    });
    if (step % 10 !== 9) continue;
    const before = await store.read(Array.from({ length: 15 }, (_, i) => `nt1_${i}`));
    // From here on the swept ones may be gone.
    for (const stored of before)
      if (stored?.record.expiresAt === 1) ops.push({ kind: "removed", key: stored.record.key });
    await store.sweep({ limit: 100 });
  }
  await store.close();
  return ops;
}

function acknowledgedBefore(ops: readonly Op[]): Map<string, { attempt: number; mayBeGone: boolean }> {
  const known = new Map<string, { attempt: number; mayBeGone: boolean }>();
  for (const op of ops) {
    if (op.kind === "acknowledged") known.set(op.key, { attempt: op.attempt, mayBeGone: false });
    if (op.kind === "removed") known.set(op.key, { attempt: known.get(op.key)?.attempt ?? 0, mayBeGone: true });
  }
  return known;
}

async function lostIn(layout: Layout, known: ReturnType<typeof acknowledgedBefore>, folder: string): Promise<string[]> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [name, file] of layout.names) writeFileSync(join(folder, name), layout.files.get(file) ?? "");
  const store = fileStore({ path: join(folder, "ledger.jsonl") });
  try {
    const keys = [...known.keys()];
    const found = await store.read(keys);
    const lost = keys.flatMap((key, i) => {
      const { attempt, mayBeGone } = known.get(key) as { attempt: number; mayBeGone: boolean };
      const now = found[i]?.record.attempt ?? 0;
      // A later, unacknowledged write may have arrived (a swept one begun anew, too): that is allowed, a loss is not.
      return now >= attempt || mayBeGone ? [] : [`${key}: acknowledged ${attempt}, found ${now}`];
    });
    // It goes on: the next commit is as good as any.
    const [result] = await store.write([{ record: sampleRecord({ key: "nt1_after" }), expected: null }]);
    return result?.ok ? lost : [...lost, "the ledger did not take another record"];
  } catch (error) {
    return [`refused: ${(error as Error).message}`];
  } finally {
    await store.close();
  }
}

it("F10: power lost at every moment, unsynced writes dropped, reordered and torn: nothing acknowledged is lost", async () => {
  const root = temporaryFolder();
  const found: string[] = [];
  let layouts = 0;
  for (const seed of [1, 2]) {
    const random = seeded(seed);
    const ops = await live(join(root, `live-${seed}`), random);
    expect(ops.filter((op) => op.kind === "rename" && op.to === "ledger.jsonl").length).toBeGreaterThan(2);
    for (let moment = 0; moment <= ops.length; moment += 1) {
      const before = ops.slice(0, moment);
      const known = acknowledgedBefore(before);
      for (let variant = 0; variant < VARIANTS_A_MOMENT; variant += 1) {
        layouts += 1;
        const lost = await lostIn(afterPowerLoss(before, random), known, join(root, "after"));
        found.push(...lost.map((one) => `seed ${seed}, moment ${moment} of ${ops.length}: ${one}`));
      }
    }
  }
  tried("power losses", layouts);
  expect(found.slice(0, 5)).toEqual([]);
}, 240_000);

it("F9 F10: a successor takes over what a killed writer had not synced, and then the power goes", async () => {
  const root = temporaryFolder();
  const random = seeded(3);
  const ops = await live(join(root, "live"), random);
  const found: string[] = [];
  let successors = 0;
  // Killed right behind a write, before its sync.
  for (const [moment, op] of ops.entries()) {
    if (op.kind !== "write" || ops[moment + 1]?.kind !== "sync" || moment % 3 !== 0) continue;
    successors += 1;
    const folder = join(root, `successor-${moment}`);
    const { disk, ops: all } = recordingDisk(folder, ops.slice(0, moment + 1));
    const store = fileStore({ path: join(folder, "ledger.jsonl"), disk });
    const keys = Array.from({ length: 15 }, (_, i) => `nt1_${i}`);
    // What it finds it acts upon: from here on it may not be lost any more.
    for (const stored of await store.read(keys))
      if (stored !== null) all.push({ kind: "acknowledged", key: stored.record.key, attempt: stored.record.attempt });
    await store.write([{ record: sampleRecord({ key: "nt1_next", attempt: 1 }), expected: null }]);
    all.push({ kind: "acknowledged", key: "nt1_next", attempt: 1 });
    await store.close();
    for (let end = moment + 2; end <= all.length; end += 1) {
      const before = all.slice(0, end);
      const lost = await lostIn(afterPowerLoss(before, random), acknowledgedBefore(before), join(root, "after"));
      found.push(...lost.map((one) => `killed at ${moment}, power lost at ${end} of ${all.length}: ${one}`));
    }
  }
  expect(successors).toBeGreaterThan(5);
  expect(found.slice(0, 5)).toEqual([]);
}, 120_000);

it("the replay catches a store that acknowledges before it syncs", async () => {
  const root = temporaryFolder();
  const random = seeded(7);
  const honest = await live(join(root, "live"), random);
  const hasty = honest.filter((op) => op.kind !== "sync" || random() < 0.5);
  const found: string[] = [];
  for (let moment = 0; moment <= hasty.length && found.length === 0; moment += 1) {
    const before = hasty.slice(0, moment);
    for (let variant = 0; variant < VARIANTS_A_MOMENT; variant += 1) {
      found.push(...(await lostIn(afterPowerLoss(before, random), acknowledgedBefore(before), join(root, "after"))));
    }
  }
  expect(found).not.toEqual([]);
}, 120_000);
