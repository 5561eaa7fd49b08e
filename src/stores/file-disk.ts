/**
 * The few calls the JSONL ledger makes on its files, in one place: what is durable after which call is the whole point
 * of the store, so a test can stand in between and take back what was not synced.
 */
import {
  closeSync,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs";
import { makePrivateFolder, modeBeside, openPrivate } from "./private-files.ts";

export interface FileFacts {
  /** Device and inode: another file under the same name has others. */
  readonly identity: string;
  readonly size: number;
}

export interface Disk {
  exists(path: string): boolean;
  makeFolder(path: string): void;
  /** Null: there is no such file. */
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
  /** The folder's entries are on the disk when it returns. */
  syncFolder(path: string): void;
}

function factsFrom({ dev, ino, size }: { dev: number; ino: number; size: number }): FileFacts {
  return { identity: `${dev}:${ino}`, size };
}

export const localDisk: Disk = {
  exists: existsSync,
  makeFolder: makePrivateFolder,
  facts(path) {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined ? null : factsFrom(found);
  },
  factsOf: (file) => factsFrom(fstatSync(file)),
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
