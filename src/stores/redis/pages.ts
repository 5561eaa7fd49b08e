/**
 * Listing. What is indexed by creation is merged until the page is full; what is open (claimed, sent) is indexed by its lease
 * and sorted here: there is only as much of it as is under way.
 */
import { type DamagedRecord, describeDamage, isDamagedRecord } from "../../core/damaged-record.ts";
import { type Instant, type LedgerRecord, leaseAlive } from "../../core/record.ts";
import type { ListQuery, Page, Stored } from "../../core/store.ts";
import { byCreation, checkLimit, decodeCursor, encodeCursor, isWanted, type Position } from "../shared/scan.ts";
import type { Names } from "./buckets.ts";
import type { RedisLink } from "./link.ts";
import { type IndexType, TYPE_OF_STATE } from "./members.ts";
import { beyond, Merge, type MergeOptions } from "./merge.ts";
import type { RedisRows } from "./rows.ts";

const READ_AT_ONCE = 500;
// After a crash of everything a sweep deals with this many at once; the others come when these are dealt with.
const MOST_LAPSED = 10_000;

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
    const damaged = new Map<string, DamagedRecord>();
    const found = types.includes("o")
      ? await this.#sorted(types, query, after, at, damaged)
      : await this.#merged(types, query, after, at, damaged);
    const items = found.slice(0, query.limit);
    const last = items.at(-1);
    const cursor = found.length > items.length && last ? encodeCursor(last.record) : null;
    return damaged.size === 0 ? { items, cursor } : { items, cursor, damaged: [...damaged.values()] };
  }

  #merge(options: Omit<MergeOptions, "link" | "names">): Merge {
    return new Merge({ link: this.#link, names: this.#names, ...options });
  }

  /** What can be read; what cannot is noted. */
  async #read(keys: readonly string[], damaged: Map<string, DamagedRecord>): Promise<Stored[]> {
    const sound: Stored[] = [];
    for (const row of await this.#rows.readEach(keys)) {
      if (isDamagedRecord(row)) damaged.set(row.key ?? "", describeDamage(row));
      // Null: it expired, and its entry waits to be tidied up.
      else if (row !== null) sound.push(row);
    }
    return sound;
  }

  /** All of it, sorted: for what is indexed by its lease. Of what has lapsed, those first whose lease ended first. */
  async #sorted(
    types: readonly IndexType[],
    query: ListQuery,
    after: Position | null,
    at: Instant,
    damaged: Map<string, DamagedRecord>,
  ): Promise<Stored[]> {
    const merge = this.#merge({ query, types, sign: 1, after: null });
    const lapsed = query.lapsed === true;
    const sign = query.order === "oldest" ? 1 : -1;
    const rows: Stored[] = [];
    for (let looked = 0; !lapsed || looked < MOST_LAPSED; looked += READ_AT_ONCE) {
      const next = await merge.next(READ_AT_ONCE);
      const keys = next.filter(({ createdAt: until }) => !lapsed || until <= at.now).map(({ key }) => key);
      for (const row of await this.#read(keys, damaged)) {
        if (fits(row.record, query, at) && beyond(row.record, after, sign)) rows.push(row);
      }
      if (keys.length < READ_AT_ONCE) break;
    }
    return rows.sort((a, b) => sign * byCreation(a.record, b.record));
  }

  /** In the order of creation, until there is one more than the page takes. */
  async #merged(
    types: readonly IndexType[],
    query: ListQuery,
    after: Position | null,
    at: Instant,
    damaged: Map<string, DamagedRecord>,
  ): Promise<Stored[]> {
    const merge = this.#merge({ query, types, sign: query.order === "oldest" ? 1 : -1, after });
    // A record that changes its state while we look may stand in two lists.
    const found = new Map<string, Stored>();
    // Nothing is indexed by agent or provider's id: many rows are looked at for each that fits.
    const isScan = query.agent !== undefined || query.providerIds !== undefined;
    const atOnce = isScan ? READ_AT_ONCE : Math.min(query.limit + 1, READ_AT_ONCE);
    while (found.size <= query.limit) {
      const next = await merge.next(atOnce);
      if (next.length === 0) break;
      const keys = next.map(({ key }) => key);
      for (const row of await this.#read(keys, damaged)) {
        if (fits(row.record, query, at) && !found.has(row.record.key)) found.set(row.record.key, row);
      }
    }
    return [...found.values()];
  }
}

/** The smallest indexes that hold everything the query may want. */
function typesFor({ states, lapsed }: ListQuery): IndexType[] {
  if (lapsed === true) return ["o"];
  if (states === undefined) return ["a"];
  const types = new Set(states.map((state) => TYPE_OF_STATE[state]));
  return types.has(null) ? ["a"] : [...(types as Set<IndexType>)];
}

/** The index has filtered by what never changes and is indexed; the state may have changed since it was read. */
function fits(record: LedgerRecord, query: ListQuery, at: Instant): boolean {
  if (query.states !== undefined && !query.states.includes(record.state)) return false;
  if (!isWanted(record, query)) return false;
  return query.lapsed !== true || (TYPE_OF_STATE[record.state] === "o" && !leaseAlive(record, at));
}
