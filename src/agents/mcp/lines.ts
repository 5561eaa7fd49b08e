/** MCP's stdio framing: one JSON message per line. Lines are kept as they came, so that they can be passed on unchanged. */
import type { Readable } from "node:stream";

/** The longest line that is read. A server that sends more without a line break is not speaking MCP. */
export const LONGEST_LINE = 64 * 1024 * 1024;

export function onLines(
  stream: Readable,
  on: { line(text: string): void; end(): void; error(error: Error): void },
): void {
  let pieces: string[] = [];
  let length = 0;
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    let from = 0;
    for (let at = chunk.indexOf("\n"); at !== -1; at = chunk.indexOf("\n", from)) {
      const line = pieces.join("") + chunk.slice(from, at);
      pieces = [];
      length = 0;
      from = at + 1;
      if (line.trim() !== "") on.line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
    pieces.push(chunk.slice(from));
    length += chunk.length - from;
    if (length > LONGEST_LINE) stream.destroy(new Error(`a line is longer than ${LONGEST_LINE} characters`));
  });
  stream.on("end", on.end);
  stream.on("error", on.error);
}
