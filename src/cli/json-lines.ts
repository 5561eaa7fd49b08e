/** JSON Lines from a stream of bytes: one input a line, blank lines passed over, a broken line told by its number. */
import { StringDecoder } from "node:string_decoder";
import { parseForeignJson, whyNotJson } from "../core/foreign-json.ts";

export interface Line {
  readonly number: number;
  /** Bytes read so far, this line included. */
  readonly bytes: number;
  readonly input?: unknown;
  /** Set where the line is not JSON, or nested too deeply. */
  readonly broken?: string;
}

// A line longer than any input may be is no line of inputs.
const LONGEST_LINE = 4 * 1024 * 1024;

export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Line> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let number = 0;
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    const lines = (rest + decoder.write(Buffer.from(chunk))).split("\n");
    rest = lines.pop() as string;
    if (rest.length > LONGEST_LINE) throw new RangeError(`line ${number + lines.length + 1} is longer than 4 MB`);
    for (const text of lines) {
      number += 1;
      if (text.trim() !== "") yield parsed(text, number, bytes);
    }
  }
  rest += decoder.end();
  if (rest.trim() !== "") yield parsed(rest, number + 1, bytes);
}

function parsed(text: string, number: number, bytes: number): Line {
  try {
    return { number, bytes, input: parseForeignJson(text) };
  } catch (error) {
    return { number, bytes, broken: whyNotJson(error) };
  }
}
