/** The indexes of all buckets as one list in the order of creation, read part by part and filtered by the server. */

import type { ListQuery } from "../../core/store.ts";
import type { Position } from "../shared/scan.ts";
import { BUCKETS, type Names } from "./buckets.ts";
import { type RedisLink, textOf } from "./link.ts";
import { actionEnd, type IndexType, keyOfEntry, rangeOf, scoreOf, tenantStart, timeOf } from "./members.ts";
import { RANGE } from "./scripts.ts";

// Entries looked at in a bucket at a time. Where the server picks out what is wanted it may look at more: 16 buckets at once
// cost it 5 ms.
const PART = 100;
const FILTERED_PART = 250;

interface Span {
  readonly bucket: number;
  readonly min: number;
  readonly max: number;
  /** Members at the beginning to pass over. */
  readonly offset: number;
}

/** What one look at a span brought. */
interface Part {
  readonly seen: number;
  /** The last score seen, and how many members had it. */
  readonly last: number;
  readonly tail: number;
  readonly found: readonly Position[];
}

function spansOf(type: IndexType): Span[] {
  return Array.from({ length: BUCKETS }, (_, bucket) => ({ bucket, ...rangeOf(type), offset: 0 }));
}

export class IndexReader {
  readonly #link: RedisLink;
  readonly #names: Names;
  readonly #filter: readonly string[];
  readonly #part: number;

  constructor(link: RedisLink, names: Names, query: ListQuery) {
    this.#link = link;
    this.#names = names;
    this.#filter = [
      query.keyPrefix ?? "",
      query.scope === undefined ? "" : JSON.stringify(query.scope),
      tenantStart(query.tenant),
      actionEnd(query.action),
    ];
    this.#part = this.#filter.every((wanted) => wanted === "") ? PART : FILTERED_PART;
  }

  get part(): number {
    return this.#part;
  }

  async read(spans: readonly Span[], sign: number): Promise<Part[]> {
    const head = [sign === 1 ? "" : "REV", String(this.#part), ...this.#filter];
    const bounds = ({ min, max, offset }: Span) => (sign === 1 ? [min, max, offset] : [max, min, offset]).map(String);
    const key = ({ bucket }: Span) => this.#names.index(bucket);
    const run = (some: readonly Span[]) =>
      this.#link.run(RANGE, some.map(key), [...head, ...some.flatMap(bounds)]).then((parts) => parts.map(partOf));
    if (!this.#link.wire.cluster) return run(spans);
    return (await Promise.all(spans.map((span) => run([span])))).flat();
  }
}

function partOf(answer: unknown): Part {
  const [seen, last, tail, ...members] = answer as unknown[];
  const found: Position[] = [];
  for (let i = 0; i + 1 < members.length; i += 2) {
    found.push({ key: keyOfEntry(textOf(members[i]).slice(1)), createdAt: timeOf(Number(members[i + 1])) });
  }
  return { seen: Number(seen), last: Number(last), tail: Number(tail), found };
}

/** Several spans merged by the time they are indexed by: creation, but for what is open the end of the lease. */
export class Merge {
  readonly #reader: IndexReader;
  readonly #sign: number;
  readonly #after: Position | null;
  readonly #streams: Stream[];

  constructor(reader: IndexReader, types: readonly IndexType[], sign: number, after: Position | null) {
    this.#reader = reader;
    this.#sign = sign;
    this.#after = after;
    this.#streams = types.flatMap((type) => {
      const from = after === null ? null : scoreOf(type, after.createdAt);
      return spansOf(type).map((span) => new Stream(from === null ? span : startingAt(span, from, sign, 0), sign));
    });
  }

  /** The next ones, up to `count`; fewer: there are no more. */
  async next(count: number): Promise<Position[]> {
    const found: Position[] = [];
    while (found.length < count) {
      await this.#refill();
      let first: Stream | null = null;
      for (const stream of this.#streams) {
        if (stream.head === null) continue;
        if (first?.head == null || this.#sign * byCreation(stream.head, first.head) < 0) first = stream;
      }
      if (first?.head == null) break;
      if (beyond(first.head, this.#after, this.#sign)) found.push(first.head);
      first.pop();
    }
    return found;
  }

  /** Until every stream shows its next or has ended: only then is the first of them known. */
  async #refill(): Promise<void> {
    for (;;) {
      const dry = this.#streams.filter((stream) => stream.dry);
      if (dry.length === 0) return;
      const parts = await this.#reader.read(
        dry.map(({ span }) => span),
        this.#sign,
      );
      for (const [index, stream] of dry.entries()) stream.fill(parts[index] as Part, this.#reader.part);
    }
  }
}

class Stream {
  readonly #sign: number;
  #span: Span;
  #buffer: readonly Position[] = [];
  #at = 0;
  #ended = false;

  constructor(span: Span, sign: number) {
    this.#span = span;
    this.#sign = sign;
  }

  get span(): Span {
    return this.#span;
  }

  get dry(): boolean {
    return !this.#ended && this.#at >= this.#buffer.length;
  }

  get head(): Position | null {
    return this.#buffer[this.#at] ?? null;
  }

  pop(): void {
    this.#at += 1;
  }

  fill({ seen, last, tail, found }: Part, asked: number): void {
    this.#ended = seen < asked;
    this.#at = 0;
    this.#buffer = found;
    if (seen === 0) return;
    // The next part begins at the last score, behind the members that have it and were seen.
    const stayed = last === (this.#sign === 1 ? this.#span.min : this.#span.max);
    this.#span = startingAt(this.#span, last, this.#sign, stayed ? this.#span.offset + seen : tail);
  }
}

function startingAt(span: Span, score: number, sign: number, offset: number): Span {
  return sign === 1 ? { ...span, min: score, offset } : { ...span, max: score, offset };
}

export function byCreation(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);
}

export function beyond(position: Position, after: Position | null, sign: number): boolean {
  return after === null || sign * byCreation(position, after) > 0;
}
