/**
 * The few calls the JSONL ledger makes on its files, in one place: what is durable after which call is the whole point
 * of the store, so a test can stand in between and take back what was not synced.
 */
import {
  type BigIntStats,
  closeSync,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { makePrivateFolder, modeBeside, openPrivate } from "../shared/private-files.ts";
import { identityFrom, realPathOf } from "./identity.ts";

export interface FileFacts {
  /** Device and inode: another file under the same name has others. */
  readonly identity: string;
  readonly size: number;
  /** How many names the file has; more than one: hard links. */
  readonly links: number;
  /** The name is a symbolic link, and this is about the link itself. */
  readonly isLink: boolean;
  readonly isFolder: boolean;
}

export interface Disk {
  exists(path: string): boolean;
  /** The path without symbolic links; the file need not exist. */
  realPath(path: string): string;
  makeFolder(path: string): void;
  /** Null: there is no such file. Links are not followed. */
  facts(path: string): FileFacts | null;
  factsOf(file: number): FileFacts;
  /** open: it must be there · create: made, or emptied if it was there, with the mode of the file `beside` it */
  open(path: string, how: "open" | "create", beside?: string): number;
  close(file: number): void;
  /** All of the range, or as much as the file has. */
  read(file: number, at: number, length: number): Buffer;
  /** All of the bytes, or an error. */
  write(file: number, at: number, bytes: Buffer): void;
  truncate(file: number, size: number): void;
  /** On the disk when it resolves. */
  sync(file: number): Promise<void>;
  rename(from: string, to: string): void;
  /** No error where there is no such file. */
  remove(path: string): void;
  /** Bytes that a program may still write in this folder; null: not known. */
  freeBytes(folder: string): number | null;
  /** The folder's entries are on the disk when it returns. */
  syncFolder(path: string): void;
}

function factsFrom(stats: BigIntStats): FileFacts {
  const { inode, links, isFolder } = identityFrom(stats);
  return { identity: inode, size: Number(stats.size), links, isLink: stats.isSymbolicLink(), isFolder };
}

export const localDisk: Disk = {
  exists: existsSync,
  realPath: realPathOf,
  makeFolder: makePrivateFolder,
  facts(path) {
    try {
      const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      return found === undefined ? null : factsFrom(found);
    } catch (error) {
      // A file stands where the path has a folder: there is no such file either. What makes it says why it cannot.
      if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return null;
      throw error;
    }
  },
  factsOf: (file) => factsFrom(fstatSync(file, { bigint: true })),
  open: (path, how, beside = path) =>
    how === "open" ? openSync(path, "r+") : openPrivate(path, "w+", modeBeside(beside)),
  close: closeSync,
  read(file, at, length) {
    const bytes = Buffer.allocUnsafe(length);
    let got = 0;
    while (got < length) {
      const more = readSync(file, bytes, got, length - got, at + got);
      if (more === 0) break;
      got += more;
    }
    return bytes.subarray(0, got);
  },
  write(file, at, bytes) {
    let written = 0;
    while (written < bytes.length) written += writeSync(file, bytes, written, bytes.length - written, at + written);
  },
  truncate: ftruncateSync,
  sync: (file) =>
    new Promise((done, failed) => {
      fdatasync(file, (error) => (error ? failed(error) : done()));
    }),
  rename: renameSync,
  remove: (path) => rmSync(path, { force: true }),
  freeBytes(folder) {
    try {
      const { bavail, bsize } = statfsSync(folder);
      return bavail * bsize;
    } catch {
      return null;
    }
  },
  syncFolder(path) {
    // Windows has no such call; there a rename is as durable as it gets.
    if (process.platform === "win32") return;
    const folder = openSync(path, "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  },
};
