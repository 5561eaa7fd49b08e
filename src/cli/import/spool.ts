/**
 * Rows of a database, read once and kept in a temporary file while they are imported: the import reads them three times, and
 * they must be the same each time. A transaction that is open for as long as that would hold up the database's own cleaning.
 */
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { rowsOfLines, type SourceFile } from "./file.ts";

const WRITE_BYTES = 256 * 1024;

/** `lines`: each a row as JSON. The file is readable by its owner only, and has no name while it is used, where that is possible. */
export async function spooled(name: string, lines: AsyncIterable<string>): Promise<SourceFile> {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-import-"));
  const path = join(folder, "rows.jsonl");
  const file = await open(path, "wx+", 0o600);
  const remove = () => rm(folder, { recursive: true, force: true }).catch(() => {});
  // An open file cannot be removed on Windows: there it goes when it is closed.
  if (process.platform !== "win32") await remove();
  const close = async () => {
    await file.close();
    await remove();
  };
  try {
    await writeAll(file, lines);
  } catch (error) {
    await close();
    throw error;
  }
  return { name, format: "lines", unit: "row", rows: () => rowsOfLines(textOf(file), name, "row"), close };
}

async function writeAll(file: FileHandle, lines: AsyncIterable<string>): Promise<void> {
  let [waiting, length] = [[] as string[], 0];
  const flush = async () => {
    await file.write(waiting.join(""));
    [waiting, length] = [[], 0];
  };
  for await (const line of lines) {
    waiting.push(line, "\n");
    length += line.length;
    if (length >= WRITE_BYTES) await flush();
  }
  await flush();
}

const READ_BYTES = 64 * 1024;

/** Not a stream of the descriptor: ended before its end, as by a bad row, it would close the file under its owner. */
async function* textOf(file: FileHandle): AsyncIterable<string> {
  const decoder = new StringDecoder();
  const buffer = Buffer.alloc(READ_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, at);
    if (bytesRead === 0) break;
    at += bytesRead;
    yield decoder.write(buffer.subarray(0, bytesRead));
  }
  yield decoder.end();
}
