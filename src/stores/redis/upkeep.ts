/**
 * Counting, and tidying up behind Redis: a settled record goes by its own TTL, and leaves its index entry behind. A sweep
 * walks the entries and takes out those whose record is gone; a process that writes a lot walks a little by itself.
 */
import type { State } from "../../core/record.ts";
import type { LedgerStats, StatsQuery, SweepQuery } from "../../core/store.ts";
import { SweepPlaces } from "../shared/bounded-map.ts";
import { checkLimit } from "../shared/scan.ts";
import { Tally } from "../shared/stats.ts";
import { BUCKETS, bucketOf, type Names } from "./buckets.ts";
import { type RedisLink, textOf } from "./link.ts";
import { isOfTenant, keyOfEntry, rangeOf, tenantStart } from "./members.ts";
import { STATE_OF_LETTER } from "./row.ts";
import { COUNT, LAPSED, TIDY, WALK } from "./scripts.ts";

// Entries looked at by one script: about a millisecond of the server's time.
const WINDOW = 1_000;
// Where a quarter of a window or more was gone, the next one follows after half as many inserts as it has entries: the walk
// is faster than what it walks over grows. Where little was, it looks at one entry for every eight inserts.
const MUCH = 0.25;
const INSERTS_AFTER_MUCH = WINDOW / 2;
const INSERTS_AFTER_LITTLE = WINDOW * 8;

interface Walk {
  readonly bucket: number;
  readonly tenant: string | undefined;
}

interface Swept {
  readonly removed: number;
  readonly end: boolean;
}

interface Walked {
  readonly removed: number;
  readonly seen: number;
  readonly end: boolean;
}

export class RedisUpkeep {
  readonly #link: RedisLink;
  readonly #names: Names;
  /** Where the walks of each tenant (undefined: of all) stand, by rank: one must not pass over what is another's to tidy. */
  readonly #ranks = new SweepPlaces<number[]>();
  /** The buckets that the present round of each tenant's sweeps has walked to their end. */
  readonly #rounds = new SweepPlaces<Set<number>>();
  #bucket = 0;
  #insertsLeft = INSERTS_AFTER_LITTLE;
  #walking = false;

  constructor(link: RedisLink, names: Names) {
    this.#link = link;
    this.#names = names;
  }

  /**
   * A round over all buckets takes as many calls as it needs: one that has reached the end of a bucket leaves it out. A
   * thorough call that went on with a round goes round once more.
   */
  async sweep({ limit, thorough = false, tenant, unfinished }: SweepQuery): Promise<number> {
    checkLimit(limit, "sweep");
    let [removed, whole] = [0, !this.#rounds.has(tenant)];
    for (;;) {
      const swept = await this.#sweepRound(tenant, limit - removed, thorough);
      removed += swept.removed;
      if (!swept.end) unfinished?.();
      if (!swept.end || !thorough || whole || removed >= limit) return removed;
      whole = true;
    }
  }

  async #sweepRound(tenant: string | undefined, limit: number, thorough: boolean): Promise<Swept> {
    const done = this.#roundOf(tenant);
    let removed = 0;
    for (let bucket = 0; bucket < BUCKETS && removed < limit; bucket += 1) {
      if (done.has(bucket)) continue;
      const swept = await this.#sweepBucket({ bucket, tenant }, limit - removed, thorough);
      removed += swept.removed;
      if (swept.end) done.add(bucket);
    }
    const end = done.size === BUCKETS;
    if (end) this.#rounds.delete(tenant);
    return { removed, end };
  }

  /** A background pass goes on while it finds much; a thorough one to the end. */
  async #sweepBucket(walk: Walk, limit: number, thorough: boolean): Promise<Swept> {
    let removed = 0;
    while (removed < limit) {
      const window = await this.#walk(walk, limit - removed);
      removed += window.removed;
      if (window.end) return { removed, end: removed < limit };
      if (!thorough && window.removed < window.seen * MUCH) break;
    }
    return { removed, end: false };
  }

  #roundOf(tenant: string | undefined): Set<number> {
    let done = this.#rounds.get(tenant);
    if (done === undefined) {
      done = new Set();
      this.#rounds.set(tenant, done);
      this.#ranksOf(tenant).fill(0);
    }
    return done;
  }

  #ranksOf(tenant: string | undefined): number[] {
    let ranks = this.#ranks.get(tenant);
    if (ranks === undefined) {
      ranks = new Array<number>(BUCKETS).fill(0);
      this.#ranks.set(tenant, ranks);
    }
    return ranks;
  }

  async #walk({ bucket, tenant }: Walk, limit: number): Promise<Walked> {
    const ranks = this.#ranksOf(tenant);
    const from = ranks[bucket] as number;
    const range = [String(from), String(from + WINDOW - 1)];
    const [members] = (await this.#link.run(WALK, [this.#names.index(bucket)], range)) as [unknown[]];
    const entries = members.map(textOf).filter((member) => member.startsWith("a"));
    const own = entries.map((member) => member.slice(1)).filter((entry) => isOfTenant(entry, tenant));
    const removed = await this.#tidySome(own, limit);
    const end = entries.length < WINDOW;
    // What the limit left is looked at again.
    if (removed < limit) ranks[bucket] = end ? 0 : from + WINDOW - removed;
    return { removed, seen: entries.length, end };
  }

  /** Only the server knows which are gone, so no more are named at once than may still be removed. */
  async #tidySome(entries: readonly string[], limit: number): Promise<number> {
    let removed = 0;
    for (let from = 0; from < entries.length && removed < limit; ) {
      const part = entries.slice(from, from + Math.min(limit - removed, WINDOW));
      removed += await this.tidy(part);
      from += part.length;
    }
    return removed;
  }

  /** Entries of any buckets. Asked with the records' keys, so that a record on its way to another node is not taken for gone. */
  async tidy(entries: readonly string[]): Promise<number> {
    const buckets = new Map<number, string[]>();
    for (const entry of entries) {
      const bucket = bucketOf(keyOfEntry(entry));
      const own = buckets.get(bucket);
      if (own === undefined) buckets.set(bucket, [entry]);
      else own.push(entry);
    }
    const gone = await Promise.all(
      [...buckets].map(async ([bucket, own]) => {
        const keys = own.map((entry) => this.#names.record(keyOfEntry(entry)));
        const [count] = await this.#link.run(TIDY, [this.#names.index(bucket), ...keys], own);
        return Number(count);
      }),
    );
    return gone.reduce((sum, count) => sum + count, 0);
  }

  /** Told of every record begun here; now and then it pays for them with a window of the walk, in the background. */
  inserted(count: number): void {
    this.#insertsLeft -= count;
    if (this.#insertsLeft > 0 || this.#walking) return;
    this.#walking = true;
    void this.#walkOn().then((much) => {
      this.#insertsLeft = much ? INSERTS_AFTER_MUCH : INSERTS_AFTER_LITTLE;
      this.#walking = false;
    });
  }

  /** Stays in a bucket while much of it is gone. */
  async #walkOn(): Promise<boolean> {
    try {
      const { removed, seen } = await this.#walk({ bucket: this.#bucket, tenant: undefined }, WINDOW);
      const much = removed > 0 && removed >= seen * MUCH;
      if (!much) this.#bucket = (this.#bucket + 1) % BUCKETS;
      return much;
    } catch {
      // It is in nobody's way: what this window left is found the next time round.
      return false;
    }
  }

  async stats({ tenant }: StatsQuery = {}): Promise<LedgerStats> {
    const tally = new Tally();
    const oldest: Partial<Record<State, number>> = {};
    const lapsed = await Promise.all(
      this.#names.indexes.map(async (index) => {
        for await (const { action, state, count, since } of this.#counts(index, tenant)) {
          tally.add(action, state, count);
          if (since !== null) oldest[state] = Math.min(since, oldest[state] ?? since);
        }
        return this.#lapsed(index, tenant);
      }),
    );
    return tally.stats({
      lapsed: lapsed.reduce((sum, count) => sum + count, 0),
      oldestPendingAt: oldest.pending ?? null,
      oldestUnknownAt: oldest.unknown ?? null,
    });
  }

  async #lapsed(index: string, tenant: string | undefined): Promise<number> {
    const args = [String(rangeOf("o").min), tenantStart(tenant)];
    let lapsed = 0;
    for (let from = 0; ; from += WINDOW) {
      const [count, more] = await this.#link.run(LAPSED, [index], [...args, String(from), String(WINDOW)]);
      lapsed += Number(count);
      if (textOf(more) === "") return lapsed;
    }
  }

  async *#counts(
    index: string,
    tenant: string | undefined,
  ): AsyncIterable<{ action: string; state: State; count: number; since: number | null }> {
    for (let from = 0; ; from += WINDOW) {
      const range = [String(from), String(from + WINDOW - 1), tenantStart(tenant)];
      const [seen, ...counts] = await this.#link.run(COUNT, [index], range);
      for (let i = 0; i + 2 < counts.length; i += 3) {
        const about = textOf(counts[i]);
        const [, action] = JSON.parse(about.slice(1)) as [string, string];
        const since = textOf(counts[i + 2]);
        yield {
          action,
          state: STATE_OF_LETTER.get(about.charAt(0)) as State,
          count: Number(counts[i + 1]),
          since: since === "" ? null : Number(since),
        };
      }
      if (Number(seen) < WINDOW) return;
    }
  }
}
