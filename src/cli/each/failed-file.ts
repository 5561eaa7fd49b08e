/** The file of --failed-to: a line for each input that failed, written when it fails, so that a kill loses none of them. */
import { closeSync, openSync, writeSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../core/errors.ts";
import type { Context } from "../command.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

const NEWLINE = 10;

export class FailedFile {
  readonly name: string;
  readonly #fd: number;
  /** Lines that could not be read, among those that were written. */
  broken = 0;

  private constructor(name: string, fd: number) {
    this.name = name;
    this.#fd = fd;
  }

  /** Made anew, before anything runs. Null: none was asked for. */
  static open({ args, io }: Context): FailedFile | null {
    const name = args.text("failed-to");
    if (name === undefined) return null;
    const path = resolve(io.cwd, name);
    if (io.stdin?.file?.isAt(path))
      throw new UsageError(
        `--failed-to ${oneLine(name)} is the file that the inputs are read from, and would be emptied. Give it another name. Nothing was run.`,
      );
    try {
      // Inputs: for the one who runs this.
      return new FailedFile(name, openSync(path, "w", 0o600));
    } catch (error) {
      throw new ProblemError(`--failed-to ${name} cannot be written, and nothing was run: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** At once, whole, and without a buffer of ours: what a kill leaves are lines. */
  write(line: Buffer): void {
    const bytes = Buffer.concat([line, Buffer.of(NEWLINE)]);
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at);
    } catch (error) {
      throw new ProblemError(
        `--failed-to ${this.name} could not be written: ${messageOf(error)}. The run has ended there; start it again with the same inputs: what was done is not done twice.`,
        { cause: error },
      );
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
