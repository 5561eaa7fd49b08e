/**
 * Handing out queued work. A script picks what is due and puts it aside for a moment, so that no two workers get in each
 * other's way; core's own claim decides what the record becomes, and the swap makes it so. The rules stand in one place,
 * and a worker that dies between the two delays its records by that moment, no more.
 */
import { describeDamage, isDamagedRecord } from "../../core/damaged-record.ts";
import type { Instant } from "../../core/record.ts";
import type { LeaseQuery, Put, Stored } from "../../core/store.ts";
import { checkLimit, claimed } from "../shared/scan.ts";
import { bucketOf, type Names } from "./buckets.ts";
import type { RedisIdentity } from "./identity.ts";
import { type RedisLink, textOf } from "./link.ts";
import { actionEnd, keyOfEntry, rangeOf, tenantStart } from "./members.ts";
import type { RedisRows } from "./rows.ts";
import { DUE } from "./scripts.ts";
import type { RedisUpkeep } from "./upkeep.ts";

const ASIDE_MS = 2_000;
// Entries of a bucket that one script looks at: a few milliseconds of the server's time. Where those are due work of other
// actions or tenants the next script goes on behind them, so that nobody's backlog stands in the way of another's work.
const REACH = 10_000;

interface Due {
  readonly entry: string;
  readonly since: number;
  readonly bucket: number;
}

/** Where to go on in an index: behind so many due entries. */
interface Place {
  readonly index: string;
  readonly offset: number;
}

interface Part {
  readonly due: readonly Due[];
  readonly left: Place[];
}

interface DueParts {
  readonly link: RedisLink;
  readonly names: Names;
  readonly identity: RedisIdentity;
  readonly rows: RedisRows;
  readonly upkeep: RedisUpkeep;
  readonly instant: () => Instant;
}

export class RedisDue {
  readonly #parts: DueParts;

  constructor(parts: DueParts) {
    this.#parts = parts;
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    checkLimit(query.limit, "lease");
    if (query.actions?.length === 0) return [];
    const due = await this.#pick(query);
    if (due.length === 0) return [];
    const rows = await this.#parts.rows.readEach(due.map(({ entry }) => keyOfEntry(entry)));
    const gone = due.filter((_, index) => rows[index] === null);
    if (gone.length > 0) await this.#parts.upkeep.tidy(gone.map(({ entry }) => entry));
    const sound: Stored[] = [];
    for (const row of rows) {
      if (isDamagedRecord(row)) query.damaged?.(describeDamage(row));
      else if (row !== null) sound.push(row);
    }
    const leased = await this.#claim(sound, query);
    // What cannot be read was picked instead of what can: it is put aside for a moment now, so that others are picked.
    const damaged = rows.length - gone.length - sound.length;
    if (damaged === 0 || leased.length >= query.limit) return leased;
    return [...leased, ...(await this.lease({ ...query, limit: query.limit - leased.length }))];
  }

  async #claim(rows: readonly Stored[], query: LeaseQuery): Promise<Stored[]> {
    const at = this.#parts.instant();
    const puts = rows.flatMap(({ record, version }): Put[] => {
      const claim = record.queued ? claimed(record, query, at) : null;
      return claim === null ? [] : [{ record: claim, expected: version }];
    });
    const results = await this.#parts.rows.write(puts);
    return puts.flatMap(({ record }, index) => {
      const result = results[index];
      if (result?.ok) return [{ record, version: result.version }];
      // Our own claim, if the client sent it twice: its holder is the one we named, and nobody else names it.
      const ours = result?.current?.record.holder === query.holder && result.current.record.fence === record.fence;
      return ours && result?.current ? [result.current] : [];
    });
  }

  async #pick(query: LeaseQuery): Promise<Due[]> {
    const { names, link } = this.#parts;
    const { indexes } = names;
    if (!link.wire.cluster) return this.#search(indexes, query, query.limit, ASIDE_MS);
    // Buckets lie on several servers: look first, then take from each as many as belong to the longest due of all.
    const seen = await Promise.all(indexes.map((index) => this.#search([index], query, query.limit, null)));
    const first = seen.flat().sort(byDue).slice(0, query.limit);
    const shares = new Map<number, number>();
    for (const { bucket } of first) shares.set(bucket, (shares.get(bucket) ?? 0) + 1);
    const taken = await Promise.all(
      [...shares].map(([bucket, share]) => this.#search([names.index(bucket)], query, share, ASIDE_MS)),
    );
    return taken.flat().sort(byDue);
  }

  /** Part by part, until there is enough or everything that is due was looked at. */
  async #search(indexes: readonly string[], query: LeaseQuery, limit: number, asideMs: number | null): Promise<Due[]> {
    const found: Due[] = [];
    let places = indexes.map((index) => ({ index, offset: 0 }));
    while (places.length > 0 && found.length < limit) {
      const part = await this.#look(places, query, limit - found.length, asideMs);
      found.push(...part.due);
      places = part.left;
    }
    return found;
  }

  async #look(places: readonly Place[], query: LeaseQuery, limit: number, asideMs: number | null): Promise<Part> {
    const actions = (query.actions ?? []).map(actionEnd);
    const numbers = [limit, asideMs ?? "", rangeOf("q").min, REACH].map(String);
    const indexes = places.map(({ index }) => index);
    const offsets = places.map(({ offset }) => offset).join(",");
    const args = [...numbers, tenantStart(query.tenant), offsets, this.#parts.identity.mark, ...actions];
    const [looked, ...found] = await this.#parts.link.run(DUE, indexes, args);
    const due: Due[] = [];
    for (let i = 0; i + 1 < found.length; i += 2) {
      const entry = textOf(found[i]).slice(1);
      due.push({ entry, since: Number(found[i + 1]), bucket: bucketOf(keyOfEntry(entry)) });
    }
    const ends = textOf(looked).split(",");
    const left = indexes.flatMap((index, at) => (ends[at] === "" ? [] : [{ index, offset: Number(ends[at]) }]));
    return { due, left };
  }
}

function byDue(a: Due, b: Due): number {
  return a.since - b.since || (a.entry < b.entry ? -1 : 1);
}
