/** The indexes of all buckets as one list in the order of creation, read part by part and filtered by the server. */
import type { ListQuery } from "../../core/store.ts";
import { byCreation, type Position } from "../shared/scan.ts";
import { BUCKETS, type Names } from "./buckets.ts";
import { type RedisLink, textOf } from "./link.ts";
import { actionEnd, type IndexType, keyOfEntry, rangeOf, scoreOf, tenantStart, timeOf } from "./members.ts";
import { RANGE } from "./scripts.ts";

// Entries looked at in a bucket at a time. Where the server picks out what is wanted it may look at more: 16 buckets at once
// cost it 5 ms.
const PART = 100;
const FILTERED_PART = 250;

/** One type of one bucket: where to go on reading, and what was read and not handed out yet. */
interface Stream {
  readonly bucket: number;
  min: number;
  max: number;
  /** Members at the beginning to pass over. */
  offset: number;
  waiting: Position[];
  ended: boolean;
}

/** 1: the oldest first; -1: the newest first. */
export type Sign = 1 | -1;

export interface MergeOptions {
  readonly link: RedisLink;
  readonly names: Names;
  readonly query: ListQuery;
  readonly types: readonly IndexType[];
  readonly sign: Sign;
  readonly after: Position | null;
}

/** Several types merged by the time they are indexed by: creation, but for what is open the end of the lease. */
export class Merge {
  readonly #options: MergeOptions;
  readonly #filter: readonly string[];
  readonly #part: number;
  readonly #streams: Stream[];

  constructor(options: MergeOptions) {
    const { query, types, sign, after } = options;
    this.#options = options;
    const scope = query.scope === undefined ? "" : JSON.stringify(query.scope);
    this.#filter = [query.keyPrefix ?? "", scope, tenantStart(query.tenant), actionEnd(query.action)];
    this.#part = this.#filter.every((wanted) => wanted === "") ? PART : FILTERED_PART;
    this.#streams = types.flatMap((type) =>
      Array.from({ length: BUCKETS }, (_, bucket) => {
        const stream = { bucket, ...rangeOf(type), offset: 0, waiting: [], ended: false };
        if (after !== null) stream[sign === 1 ? "min" : "max"] = scoreOf(type, after.createdAt);
        return stream;
      }),
    );
  }

  /** The next ones, up to `count`; fewer: there are no more. */
  async next(count: number): Promise<Position[]> {
    const { sign, after } = this.#options;
    const found: Position[] = [];
    while (found.length < count) {
      await this.#refill();
      let first: Stream | null = null;
      for (const stream of this.#streams) {
        const [head] = stream.waiting;
        if (head !== undefined && (first === null || sign * byCreation(head, first.waiting[0] as Position) < 0))
          first = stream;
      }
      const next = first?.waiting.shift();
      if (next === undefined) break;
      if (beyond(next, after, sign)) found.push(next);
    }
    return found;
  }

  /** Until every stream shows its next or has ended: only then is the first of them known. */
  async #refill(): Promise<void> {
    for (;;) {
      const dry = this.#streams.filter(({ waiting, ended }) => waiting.length === 0 && !ended);
      if (dry.length === 0) return;
      if (!this.#options.link.wire.cluster) await this.#read(dry);
      else await Promise.all(dry.map((stream) => this.#read([stream])));
    }
  }

  async #read(streams: readonly Stream[]): Promise<void> {
    const { link, names, sign } = this.#options;
    const keys = streams.map(({ bucket }) => names.index(bucket));
    const bounds = streams.flatMap(({ min, max, offset }) => (sign === 1 ? [min, max, offset] : [max, min, offset]));
    const head = [sign === 1 ? "" : "REV", String(this.#part), ...this.#filter];
    const parts = await link.run(RANGE, keys, [...head, ...bounds.map(String)]);
    for (const [i, stream] of streams.entries()) this.#fill(stream, parts[i] as unknown[]);
  }

  #fill(stream: Stream, [seen, last, tail, ...members]: unknown[]): void {
    stream.ended = Number(seen) < this.#part;
    for (let i = 0; i + 1 < members.length; i += 2) {
      const key = keyOfEntry(textOf(members[i]).slice(1));
      stream.waiting.push({ key, createdAt: timeOf(Number(members[i + 1])) });
    }
    if (Number(seen) === 0) return;
    // The next part begins at the last score, behind the members that have it and were seen.
    const bound = this.#options.sign === 1 ? "min" : "max";
    stream.offset = Number(last) === stream[bound] ? stream.offset + Number(seen) : Number(tail);
    stream[bound] = Number(last);
  }
}

export function beyond(position: Position, after: Position | null, sign: Sign): boolean {
  return after === null || sign * byCreation(position, after) > 0;
}
