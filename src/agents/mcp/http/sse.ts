/**
 * Server-sent events, read one by one and kept as they came, so that they can be passed on unchanged. Each character is looked
 * at once, however the stream is cut: an event may be long and come in many pieces.
 */

export interface SseEvent {
  /** The event's text, blank line included. */
  readonly raw: string;
  readonly data: string;
  /** "message" unless the event says another. */
  readonly type: string;
  /** Has an id: the stream can be resumed after it. */
  readonly resumable: boolean;
  readonly id: string | undefined;
}

const LONGEST_EVENT = 64 * 1024 * 1024;

export class SseReader {
  /** Pieces of the event that is not complete yet. */
  #raw: string[] = [];
  #size = 0;
  #data: string[] = [];
  #id: string | undefined;
  #type = "";
  /** Pieces of the line that is not complete yet. */
  #line: string[] = [];
  /** The last character was a CR: an LF right behind it belongs to the same line end. */
  #afterCr = false;
  #first = true;

  /** The events that are complete now. */
  push(chunk: string): SseEvent[] {
    const events: SseEvent[] = [];
    const ends = /\r\n|\n|\r/g;
    let [lineFrom, rawFrom] = [0, 0];
    if (this.#afterCr && chunk.startsWith("\n")) {
      lineFrom = 1;
      ends.lastIndex = 1;
    }
    if (chunk !== "") this.#afterCr = false;
    for (let end = ends.exec(chunk); end !== null; end = ends.exec(chunk)) {
      this.#line.push(chunk.slice(lineFrom, end.index));
      lineFrom = ends.lastIndex;
      this.#afterCr = end[0] === "\r" && lineFrom === chunk.length;
      if (!this.#isLastLine()) continue;
      this.#raw.push(chunk.slice(rawFrom, lineFrom));
      rawFrom = lineFrom;
      events.push(this.#event());
    }
    this.#line.push(chunk.slice(lineFrom));
    this.#raw.push(chunk.slice(rawFrom));
    this.#size += chunk.length - rawFrom;
    if (this.#size > LONGEST_EVENT) throw new Error(`an event is longer than ${LONGEST_EVENT} characters`);
    return events;
  }

  /** What came after the last complete event. */
  get rest(): string {
    return this.#raw.join("");
  }

  /** How many characters that is. */
  get size(): number {
    return this.#size;
  }

  /** Takes the line that has just ended; true: it was blank, and the event is complete. */
  #isLastLine(): boolean {
    let line = this.#line.join("");
    this.#line = [];
    // A byte order mark may stand before the first line.
    if (this.#first && line.startsWith("\uFEFF")) line = line.slice(1);
    this.#first = false;
    if (line === "") return true;
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    if (field === "id") this.#id = value;
    if (field === "event") this.#type = value;
    return false;
  }

  #event(): SseEvent {
    const [raw, data, id, type] = [this.#raw.join(""), this.#data.join("\n"), this.#id, this.#type || "message"];
    this.#type = "";
    this.#raw = [];
    this.#size = 0;
    this.#data = [];
    this.#id = undefined;
    return { raw, data, type, resumable: id !== undefined, id };
  }
}
