/**
 * Listing: the indexes of all buckets merged by creation, filtered by what an entry says before any record is read. What is
 * open (claimed, sent) is indexed by its lease and sorted here; there is only as much of it as is under way.
 */
import { type Instant, type LedgerRecord, leaseAlive } from "../core/record.ts";
import { checkLimit, decodeCursor, encodeCursor, type Position } from "../core/scan.ts";
import type { ListQuery, Page, Stored } from "../core/store.ts";
import { BUCKETS, type Names } from "./redis-buckets.ts";
import { type IndexType, parseEntry, rangeOf, scoreOf, TYPE_OF_STATE, timeOf } from "./redis-index.ts";
import { type RedisLink, textOf } from "./redis-link.ts";
import type { RedisRows } from "./redis-rows.ts";
import { RANGE } from "./redis-scripts.ts";

// Entries fetched from a bucket at a time.
const PART = 100;
// Records read at a time, and open ones looked at per bucket at most: what is over it comes once these are dealt with.
const READ_AT_ONCE = 500;
const OPEN_A_BUCKET = 10_000;

interface Candidate extends Position {
  readonly key: string;
}

interface Span {
  readonly bucket: number;
  readonly min: number;
  readonly max: number;
}

export class RedisPages {
  readonly #link: RedisLink;
  readonly #names: Names;
  readonly #rows: RedisRows;

  constructor(link: RedisLink, names: Names, rows: RedisRows) {
    this.#link = link;
    this.#names = names;
    this.#rows = rows;
  }

  async list(query: ListQuery, at: Instant): Promise<Page> {
    checkLimit(query.limit, "list");
    const after = query.cursor === undefined ? null : decodeCursor(query.cursor);
    const types = typesFor(query);
    const found: Stored[] = types.includes("o")
      ? await this.#sorted(types, query, after, at)
      : await this.#merged(types, query, after, at);
    const items = found.slice(0, query.limit);
    const last = items.at(-1);
    return { items, cursor: found.length > items.length && last ? encodeCursor(last.record) : null };
  }

  /** All of it, sorted: for what is not indexed by creation. */
  async #sorted(types: readonly IndexType[], query: ListQuery, after: Position | null, at: Instant): Promise<Stored[]> {
    const spans = types.flatMap((type) => {
      const { min } = rangeOf(type);
      const max = query.lapsed === true ? scoreOf(type, at.now) : rangeOf(type).max;
      return allBuckets(min, max);
    });
    const keys: string[] = [];
    for (const part of await this.#ranges(spans, "oldest", OPEN_A_BUCKET)) {
      for (const { member } of part) if (entryFits(member, query)) keys.push(parseEntry(member.slice(1)).key);
    }
    const sign = query.order === "oldest" ? 1 : -1;
    const rows: Stored[] = [];
    for (let from = 0; from < keys.length; from += READ_AT_ONCE) {
      for (const row of await this.#rows.read(keys.slice(from, from + READ_AT_ONCE))) {
        if (row !== null && recordFits(row.record, query, at) && beyond(row.record, after, sign)) rows.push(row);
      }
    }
    return rows.sort((a, b) => sign * byCreation(a.record, b.record));
  }

  /** Bucket by bucket in the order of creation, merged until the page is full. */
  async #merged(types: readonly IndexType[], query: ListQuery, after: Position | null, at: Instant): Promise<Stored[]> {
    const sign = query.order === "oldest" ? 1 : -1;
    const streams = types.flatMap((type) =>
      allBuckets(rangeOf(type).min, rangeOf(type).max).map((span) => new Stream(span, type, sign, after)),
    );
    const found: Stored[] = [];
    // A record that changes its state while we look may stand in two lists.
    const seen = new Set<string>();
    while (found.length <= query.limit) {
      const candidates = await this.#next(streams, query, sign, after);
      if (candidates.length === 0) break;
      for (const row of await this.#rows.read(candidates.map(({ key }) => key))) {
        // Null: it expired, and its entry waits to be tidied up.
        if (row === null || seen.has(row.record.key) || !recordFits(row.record, query, at)) continue;
        seen.add(row.record.key);
        found.push(row);
      }
    }
    return found;
  }

  /** The next candidates over all streams, as many as fit one read. */
  async #next(
    streams: readonly Stream[],
    query: ListQuery,
    sign: number,
    after: Position | null,
  ): Promise<Candidate[]> {
    const wanted = Math.min(query.limit + 1, READ_AT_ONCE);
    const candidates: Candidate[] = [];
    while (candidates.length < wanted) {
      await this.#refill(streams.filter((stream) => stream.dry));
      let first: Stream | null = null;
      for (const stream of streams) {
        if (stream.head === null) continue;
        if (first?.head == null || sign * byCreation(stream.head, first.head) < 0) first = stream;
      }
      if (first?.head == null) break;
      const { head } = first;
      first.pop();
      if (beyond(head, after, sign) && entryFits(head.member, query)) candidates.push(head);
    }
    return candidates;
  }

  async #refill(dry: readonly Stream[]): Promise<void> {
    if (dry.length === 0) return;
    const order = (dry[0] as Stream).sign === 1 ? "oldest" : "newest";
    const parts = await this.#ranges(
      dry.map((stream) => stream.span),
      order,
      PART,
      dry.map((stream) => stream.offset),
    );
    for (const [index, stream] of dry.entries()) stream.fill(parts[index] as Member[]);
  }

  async #ranges(
    spans: readonly Span[],
    order: "oldest" | "newest",
    count: number,
    offsets: readonly number[] = [],
  ): Promise<Member[][]> {
    const reverse = order === "newest" ? "REV" : "";
    const argsOf = ({ min, max }: Span, at: number) => [
      String(reverse === "" ? min : max),
      String(reverse === "" ? max : min),
      String(offsets[at] ?? 0),
    ];
    const key = ({ bucket }: Span) => this.#names.index(bucket);
    if (this.#link.wire.cluster) {
      const one = async (span: Span, at: number) =>
        membersOf((await this.#link.run(RANGE, [key(span)], [reverse, String(count), ...argsOf(span, at)]))[0]);
      return Promise.all(spans.map(one));
    }
    const parts = await this.#link.run(RANGE, spans.map(key), [reverse, String(count), ...spans.flatMap(argsOf)]);
    return parts.map(membersOf);
  }
}

interface Member {
  readonly member: string;
  readonly score: number;
}

function membersOf(flat: unknown): Member[] {
  const list = flat as unknown[];
  const members: Member[] = [];
  for (let i = 0; i + 1 < list.length; i += 2) members.push({ member: textOf(list[i]), score: Number(list[i + 1]) });
  return members;
}

type Head = Member & Candidate;

/** One type of one bucket's index, read part by part. */
class Stream {
  readonly sign: number;
  #span: Span;
  #offset = 0;
  #buffer: Head[] = [];
  #at = 0;
  #ended = false;

  constructor(span: Span, type: IndexType, sign: number, after: Position | null) {
    this.sign = sign;
    const from = after === null ? null : scoreOf(type, after.createdAt);
    if (from === null) this.#span = span;
    else this.#span = sign === 1 ? { ...span, min: from } : { ...span, max: from };
  }

  get span(): Span {
    return this.#span;
  }

  get offset(): number {
    return this.#offset;
  }

  get dry(): boolean {
    return !this.#ended && this.#at >= this.#buffer.length;
  }

  get head(): Head | null {
    return this.#buffer[this.#at] ?? null;
  }

  pop(): void {
    this.#at += 1;
  }

  fill(members: readonly Member[]): void {
    this.#ended = members.length < PART;
    this.#at = 0;
    this.#buffer = members.map((one) => ({
      ...one,
      createdAt: timeOf(one.score),
      key: parseEntry(one.member.slice(1)).key,
    }));
    const last = members.at(-1);
    if (last === undefined) return;
    // The next part begins at the last score, behind the members that have it and were seen.
    const seen = members.filter(({ score }) => score === last.score).length;
    const stayed = last.score === (this.sign === 1 ? this.#span.min : this.#span.max);
    this.#offset = stayed ? this.#offset + members.length : seen;
    this.#span = this.sign === 1 ? { ...this.#span, min: last.score } : { ...this.#span, max: last.score };
  }
}

function allBuckets(min: number, max: number): Span[] {
  return Array.from({ length: BUCKETS }, (_, bucket) => ({ bucket, min, max }));
}

/** The smallest indexes that hold everything the query may want. */
function typesFor({ states, lapsed }: ListQuery): IndexType[] {
  if (lapsed === true) return ["o"];
  if (states === undefined) return ["a"];
  const types = new Set(states.map((state) => TYPE_OF_STATE[state]));
  return types.has(null) ? ["a"] : [...(types as Set<IndexType>)];
}

function entryFits(member: string, query: ListQuery): boolean {
  const { key, tenant, action } = parseEntry(member.slice(1));
  if (query.tenant !== undefined && tenant !== query.tenant) return false;
  if (query.action !== undefined && action !== query.action) return false;
  return query.keyPrefix === undefined || key.startsWith(query.keyPrefix);
}

/** The record may have changed since its entry was read. */
function recordFits(record: LedgerRecord, query: ListQuery, at: Instant): boolean {
  if (query.scope !== undefined && record.scope !== query.scope) return false;
  if (query.states !== undefined && !query.states.includes(record.state)) return false;
  return query.lapsed !== true || (TYPE_OF_STATE[record.state] === "o" && !leaseAlive(record, at));
}

function byCreation(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);
}

function beyond(position: Position, after: Position | null, sign: number): boolean {
  return after === null || sign * byCreation(position, after) > 0;
}
