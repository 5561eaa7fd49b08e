/**
 * Which file a path means. A ledger's lock, its id file and its compaction belong to the file, not to one of the paths
 * that lead to it: a symbolic link, a relative path, or another spelling on a file system that ignores case. So every
 * path is resolved before anything is made beside the file. A second name that cannot be resolved (a hard link, a mount
 * of the file alone) is refused: each name would have a lock of its own.
 */
import { closeSync, openSync, readFileSync, readlinkSync, readSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { configError, type NevertwiceError } from "../../core/errors.ts";

export interface FileIdentity {
  /** Device and inode, as `dev:ino`: equal for every path to one file, and different after the file was replaced. */
  readonly inode: string;
  /** How many names the file has: more than one means hard links. */
  readonly links: number;
  readonly isFolder: boolean;
}

// As many as Linux follows.
const MOST_LINKS = 40;

/**
 * The absolute path without symbolic links, in the case that the file system stores. The file need not exist: a link to a
 * missing file gives the path that opening it would create, and missing folders stay as they are written.
 */
export function realPathOf(path: string): string {
  return resolved(resolve(path), MOST_LINKS);
}

function resolved(path: string, linksLeft: number): string {
  const found = orNull(() => realpathSync.native(path));
  if (found !== null) return found;
  const folder = dirname(path);
  if (folder === path) return path;
  const real = join(resolved(folder, linksLeft), basename(path));
  const target = orNull(() => readlinkSync(real));
  if (target === null) return real;
  if (linksLeft === 0) throw Object.assign(new Error(`ELOOP: too many symbolic links, '${path}'`), { code: "ELOOP" });
  return resolved(resolve(dirname(real), target), linksLeft - 1);
}

// ENOENT and ENOTDIR: there is no such file. EINVAL: there is, and it is not a link. UNKNOWN: the same, on Windows.
const ABSENT = new Set(["ENOENT", "ENOTDIR", "EINVAL", "UNKNOWN"]);

function orNull(read: () => string): string | null {
  try {
    return read();
  } catch (error) {
    if (ABSENT.has(String((error as NodeJS.ErrnoException).code))) return null;
    throw error;
  }
}

/** The file that the path leads to; null: there is none. */
export function identityOf(path: string): FileIdentity | null {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : identityFrom(found);
}

interface Stats {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly nlink: bigint;
  isDirectory(): boolean;
}

/** BigInt, because an inode of 64 bits does not fit a number, and two of them could be rounded to the same one. */
export function identityFrom(stats: Stats): FileIdentity {
  return { inode: `${stats.dev}:${stats.ino}`, links: Number(stats.nlink), isFolder: stats.isDirectory() };
}

type Scheme = "sqlite" | "file";
const FILE_NAMES: Record<Scheme, string> = { sqlite: "ledger.db", file: "ledger.jsonl" };

/** A folder has several names too (its own, "." and ".." of those in it), and is no ledger with hard links. */
export function refuseFolder(path: string, scheme: Scheme): void {
  const file = join(path, FILE_NAMES[scheme]);
  throw configError(`${path} is a folder, and a ledger is a file. Name a file in it: ${scheme}:${file}`);
}

const SQLITE_START = "SQLite format 3\0";
const JSONL_START = '{"nevertwice":"ledger"';

/** The ledger of the other store for files, by its first bytes. */
export function schemeOf(start: Buffer): Scheme | null {
  const text = start.toString("latin1");
  if (text.startsWith(SQLITE_START)) return "sqlite";
  return text.startsWith(JSONL_START) ? "file" : null;
}

export function firstBytes(path: string): Buffer {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(JSONL_START.length);
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(file);
  }
}

export function otherScheme(path: string, scheme: Scheme): NevertwiceError {
  const what = scheme === "sqlite" ? "a SQLite file, not a ledger of JSON lines" : "a ledger of JSON lines, not SQLite";
  return configError(`${path} is ${what}. It was left as it is. Name it with its scheme: ${scheme}:${path}`);
}

/** For a ledger that is about to be opened or replaced under its name. */
export function refuseHardLinks(path: string, links: number): void {
  if (links <= 1) return;
  throw configError(
    `the ledger ${path} has ${links} names (hard links). Each name would have its own lock and id file, so that two programs could do the same thing twice. Nothing was run. Find the others with: find <folder> -samefile ${path}, and remove them, or replace each with a symbolic link (ln -s).`,
  );
}

/**
 * A file that is mounted by itself, as containers mount one: the folder around it is another one for each of them, and so
 * are the lock, the id file and SQLite's log. Linux alone says so; elsewhere this refuses nothing.
 */
export function refuseLoneMount(path: string, mounts: string = mountTable()): void {
  const mounted = mounts.split("\n").some((line) => unescaped(line.split(" ")[4] ?? "") === path);
  if (!mounted) return;
  throw configError(
    `the ledger ${path} is mounted as a single file. Its lock, its id file and its log would lie in this container, and another one on the same file could do the same thing twice. Nothing was run. Mount the folder instead: -v /srv/data:${dirname(path)}`,
  );
}

function mountTable(): string {
  try {
    return process.platform === "linux" ? readFileSync("/proc/self/mountinfo", "utf8") : "";
  } catch {
    return "";
  }
}

/** Spaces and the like are written as octal numbers there. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
