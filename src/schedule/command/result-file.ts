/** Where a command writes its own result as JSON. What is wrong with it changes nothing about the command: it is done. */
import { closeSync, fstatSync, lstatSync, openSync, readSync, rmSync } from "node:fs";
import { configError, messageOf } from "../../core/errors.ts";
import { whyNotJson } from "../../core/foreign-json.ts";
import { parseExactJson } from "../exact-json.ts";

/** Below what the ledger keeps of a result, together with the last lines and what JSON adds to them. */
const MOST_BYTES = 1_000_000;

export type OwnResult =
  | { readonly as: "none" }
  | { readonly as: "result"; readonly result: unknown }
  | { readonly as: "unusable"; readonly why: string };

export class ResultFile {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** What an earlier run left there is not the result of this one. */
  clear(): void {
    const found = lstatSync(this.path, { throwIfNoEntry: false });
    if (found === undefined) return;
    if (!found.isFile())
      throw configError(
        `--result-file ${this.path} is not a file. Name a path where the command may create one; what is there is removed before each run.`,
      );
    rmSync(this.path);
  }

  read(): OwnResult {
    let text: string;
    try {
      const found = lstatSync(this.path, { throwIfNoEntry: false });
      if (found === undefined) return { as: "none" };
      if (!found.isFile()) return { as: "unusable", why: "it is not a file" };
      const bytes = this.#bytes();
      if (bytes.length > MOST_BYTES)
        return {
          as: "unusable",
          why: `it has more than ${MOST_BYTES} bytes. Store what is large elsewhere, and write its id or path`,
        };
      text = bytes.toString();
    } catch (error) {
      return { as: "unusable", why: `it cannot be read: ${messageOf(error)}` };
    }
    if (text.trim() === "") return { as: "none" };
    try {
      return { as: "result", result: parseExactJson(text) };
    } catch (error) {
      return { as: "unusable", why: whyNotJson(error) };
    }
  }

  /** One byte more than allowed at most, however large it is. */
  #bytes(): Buffer {
    const file = openSync(this.path, "r");
    try {
      const buffer = Buffer.alloc(Math.min(fstatSync(file).size, MOST_BYTES + 1));
      let length = 0;
      while (length < buffer.length) {
        const read = readSync(file, buffer, length, buffer.length - length, null);
        if (read === 0) break;
        length += read;
      }
      return buffer.subarray(0, length);
    } finally {
      closeSync(file);
    }
  }
}
