/** Stdin, where it is a file: how many lines it has, and whether a path leads to it. Reading it here moves no position. */
import { fstatSync, read, statSync } from "node:fs";
import { promisify } from "node:util";

export interface InputFile {
  /** Lines that are not blank. */
  countLines(): Promise<number>;
  isAt(path: string): boolean;
}

const CHUNK = 1024 * 1024;
const NEWLINE = 10;
const BLANK = new Set([9, 13, 32]);

export function inputFile(fd: number): InputFile | null {
  try {
    const file = fstatSync(fd);
    if (!file.isFile()) return null;
    return {
      countLines: () => countLines(fd),
      isAt: (path) => {
        const other = statSync(path, { throwIfNoEntry: false });
        return other !== undefined && other.dev === file.dev && other.ino === file.ino;
      },
    };
  } catch {
    return null;
  }
}

const readAt = promisify(read);

async function countLines(fd: number): Promise<number> {
  const lines = new LineCount();
  const buffer = Buffer.alloc(CHUNK);
  for (let position = 0; ; ) {
    const { bytesRead } = await readAt(fd, buffer, 0, CHUNK, position);
    if (bytesRead === 0) return lines.end();
    lines.push(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
}

export class LineCount {
  #count = 0;
  /** Whether the line under way has something in it. */
  #begun = false;

  push(chunk: Buffer): void {
    let from = 0;
    while (from < chunk.length) {
      const found = chunk.indexOf(NEWLINE, from);
      const end = found === -1 ? chunk.length : found;
      for (let at = from; at < end && !this.#begun; at += 1) this.#begun = !BLANK.has(chunk[at] as number);
      if (found !== -1) this.#endLine();
      from = end + 1;
    }
  }

  end(): number {
    this.#endLine();
    return this.#count;
  }

  #endLine(): void {
    if (this.#begun) this.#count += 1;
    this.#begun = false;
  }
}
