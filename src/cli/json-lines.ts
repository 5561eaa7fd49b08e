/** JSON Lines from a stream of bytes: one input a line, blank lines passed over, a broken line told by its number. */
import { parseForeignJson, whyNotJson } from "../core/foreign-json.ts";
import { decodeText, hasLoneReturns, NotUtf8Error, otherEncoding } from "./import/foreign-text.ts";
import { ProblemError } from "./term/exit.ts";

export interface Line {
  readonly number: number;
  readonly input?: unknown;
  /** Set where the line is not UTF-8, not JSON, or nested too deeply. */
  readonly broken?: string;
  /** The bytes of a broken line. */
  readonly raw?: Buffer;
}

// A line longer than any input may be is no line of inputs.
const LONGEST_LINE = 4 * 1024 * 1024;

const NEWLINE = 10;

export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Line> {
  const lines = new Lines();
  let begun = false;
  function* checked(line: Raw): Iterable<Line> {
    // Later a line that cannot be read is that line's error: what came before it has run.
    if (!begun) refuseForeign(line);
    for (const one of parsed(line)) {
      begun ||= one.broken === undefined;
      yield one;
    }
  }
  for await (const chunk of chunks) {
    for (const line of lines.push(Buffer.from(chunk))) yield* checked(line);
  }
  yield* checked(lines.end());
}

interface Raw {
  readonly number: number;
  readonly bytes: Buffer;
}

/** Split as bytes: in UTF-8 no other character has a newline's byte in it, however the chunks are cut. */
class Lines {
  #parts: Buffer[] = [];
  #length = 0;
  #number = 0;

  *push(chunk: Buffer): Iterable<Raw> {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, end));
      yield this.end();
      from = end + 1;
    }
    this.#keep(chunk.subarray(from));
    if (this.#length <= LONGEST_LINE) return;
    if (this.#number === 0) refuseForeign({ number: 1, bytes: Buffer.concat(this.#parts) });
    throw new RangeError(`line ${this.#number + 1} is longer than 4 MB`);
  }

  end(): Raw {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#length = 0;
    this.#number += 1;
    return { number: this.#number, bytes };
  }

  #keep(part: Buffer): void {
    this.#parts.push(part);
    this.#length += part.length;
  }
}

/** What is wrong with the inputs as a whole, where nothing has run yet. */
function refuseForeign({ bytes }: Raw): void {
  const other = otherEncoding(bytes);
  if (other !== null)
    throw new ProblemError(`the inputs are ${other}, and nothing was run. Save them as UTF-8 and start again.`);
  if (hasLoneReturns(bytes.toString("latin1")) && !isJson(bytes.toString()))
    throw new ProblemError(
      "the lines of the inputs end with CR alone, and nothing was run. Convert them and start again: tr '\\r' '\\n' < inputs.jsonl > converted.jsonl",
    );
}

/** CR may also be a space between the parts of one input. */
function isJson(text: string): boolean {
  try {
    parseForeignJson(text);
    return true;
  } catch {
    return false;
  }
}

function* parsed(line: Raw): Iterable<Line> {
  const { number } = line;
  try {
    const text = decodeText(line.bytes);
    if (text.trim() !== "") yield { number, input: parseForeignJson(text) };
  } catch (error) {
    const broken = error instanceof NotUtf8Error ? `it is ${error.message}` : whyNotJson(error);
    yield { number, broken, raw: line.bytes };
  }
}
