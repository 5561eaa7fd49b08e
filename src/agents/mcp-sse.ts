/** Server-sent events, read one by one and kept as they came, so that they can be passed on unchanged. */

export interface SseEvent {
  /** The event's text, blank line included. */
  readonly raw: string;
  readonly data: string;
  /** Has an id: the stream can be resumed after it. */
  readonly resumable: boolean;
}

const LONGEST_EVENT = 64 * 1024 * 1024;

export class SseReader {
  #rest = "";

  /** The events that are complete now. */
  push(chunk: string): SseEvent[] {
    this.#rest += chunk;
    const events: SseEvent[] = [];
    for (let end = boundary(this.#rest); end !== null; end = boundary(this.#rest)) {
      events.push(eventOf(this.#rest.slice(0, end)));
      this.#rest = this.#rest.slice(end);
    }
    if (this.#rest.length > LONGEST_EVENT) throw new Error(`an event is longer than ${LONGEST_EVENT} characters`);
    return events;
  }

  /** What came after the last complete event. */
  get rest(): string {
    return this.#rest;
  }
}

function boundary(text: string): number | null {
  const found = /\r\n\r\n|\n\n|\r\r/.exec(text);
  return found === null ? null : found.index + found[0].length;
}

function eventOf(raw: string): SseEvent {
  const lines = raw.split(/\r\n|\n|\r/);
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
  return { raw, data: data.join("\n"), resumable: lines.some((line) => line.startsWith("id:")) };
}
