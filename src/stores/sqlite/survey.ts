/** Lists, statistics and sweeps of a SQLite ledger, put together from slices (see stores/sqlite/look.ts). */
import { performance } from "node:perf_hooks";
import type { Instant, State } from "../../core/record.ts";
import type { LedgerStats, ListQuery, StatsQuery, SweepQuery } from "../../core/store.ts";
import { SweepPlaces } from "../shared/bounded-map.ts";
import { checkLimit } from "../shared/scan.ts";
import { Tally } from "../shared/stats.ts";
import { cursorId } from "./list.ts";
import {
  type AnswerOf,
  type Count,
  type ExpiredAnswer,
  isNewestFirst,
  type ListSlice,
  type Oldest,
  type RowWithId,
  type Slice,
  type Source,
} from "./look.ts";

/** Where slices are run. */
export interface SliceRunner {
  /** A small slice, on the event loop; null: it is too much for that. */
  here<S extends Slice>(slice: S): Promise<AnswerOf<S> | null>;
  /** On the thread that reads; without one, on the event loop after a turn of it. */
  away<S extends Slice>(slice: S): Promise<AnswerOf<S>>;
  /** In one write transaction each, between the writes of callers. */
  remove(found: ExpiredAnswer["found"]): Promise<number>;
  watch(): Promise<boolean>;
}

// Rows removed by one transaction: some milliseconds, so that no writer waits long for it.
const REMOVED_AT_ONCE = 500;
// Slices that one background pass looks at.
const SLICES_A_PASS = 20;
// Passes may follow each other closely. Watched more often than this, claims that live for milliseconds would get into the
// index of leases.
const WATCH_EVERY_MS = 10_000;
// "nt1_" and four characters of a digest: one record in a million begins like that.
const SELECTIVE_PREFIX = 8;

const INDEXED: readonly State[] = ["pending", "failed", "unknown"];

export class SqliteSurvey {
  readonly #run: SliceRunner;
  readonly #sweptTo = new SweepPlaces<number>();
  #watchedAt = Number.NEGATIVE_INFINITY;

  constructor(run: SliceRunner) {
    this.#run = run;
  }

  async list(query: ListQuery, at: Instant): Promise<{ rows: RowWithId[]; cursor: string | null }> {
    checkLimit(query.limit, "list");
    const after = query.cursor === undefined ? null : cursorId(query.cursor);
    const found = new Map<number, RowWithId>();
    // One more than asked for tells that there is a next page.
    for (const source of sourcesOf(query)) {
      const slice: ListSlice = { op: "list", source, query, at, after, most: query.limit + 1 };
      for (const row of await this.#walk(slice)) found.set(row.id, row);
    }
    const sign = isNewestFirst(query) ? -1 : 1;
    const rows = [...found.values()].sort((a, b) => sign * (a.id - b.id));
    const page = rows.slice(0, query.limit);
    const last = page.at(-1);
    return { rows: page, cursor: rows.length > page.length && last !== undefined ? String(last.id) : null };
  }

  async #walk(from: ListSlice): Promise<RowWithId[]> {
    const rows: RowWithId[] = [];
    let slice = from;
    let answer = (await this.#run.here(slice)) ?? (await this.#run.away(slice));
    for (;;) {
      for (const row of answer.rows) rows.push(row);
      if (answer.next === null || rows.length >= from.most) return rows;
      slice = { ...from, after: answer.next, most: from.most - rows.length };
      answer = await this.#run.away(slice);
    }
  }

  async stats({ tenant, waiting = false }: StatsQuery, at: Instant): Promise<LedgerStats> {
    const own = tenant === undefined ? {} : { tenant };
    if (waiting) {
      const slice = { op: "waiting", at, ...own } as const;
      const { counts, lapsed, oldest } = (await this.#run.here(slice)) ?? (await this.#run.away(slice));
      return statsOf(counts, lapsed, oldest);
    }
    const counts: Count[] = [];
    let lapsed = 0;
    for (let after = 0, first = true; ; first = false) {
      const slice = { op: "count", at, after, ...own } as const;
      const answer = (first ? await this.#run.here(slice) : null) ?? (await this.#run.away(slice));
      counts.push(...answer.counts);
      lapsed += answer.lapsed;
      if (answer.next === null) return statsOf(counts, lapsed, answer.oldest);
      after = answer.next;
    }
  }

  /**
   * Removes what is past its `keep`, going round the table from where the last sweep stopped. It ends when the limit is
   * reached, when a whole round is done, or, for a background pass, when it has looked at enough.
   */
  async sweep(query: SweepQuery, at: Instant): Promise<number> {
    checkLimit(query.limit, "sweep");
    const { tenant, thorough = false } = query;
    await this.#watch(thorough);
    const started = this.#sweptTo.get(tenant) ?? 0;
    let [removed, after, ended] = [0, started, false];
    for (let slices = 1; ; slices += 1) {
      const limit = Math.min(REMOVED_AT_ONCE, query.limit - removed);
      const slice = { op: "expired", query: { limit, ...(tenant !== undefined && { tenant }) }, at, after } as const;
      const { found, next } = (slices === 1 ? await this.#run.here(slice) : null) ?? (await this.#run.away(slice));
      const gone = found.length === 0 ? 0 : await this.#run.remove(found);
      removed += gone;
      after = next ?? 0;
      // Where another process has removed most of what was found here, it is sweeping too: it goes on, this one rests.
      const contended = !thorough && gone < found.length / 2;
      // From where it began back to there. The rows there may be gone: then the second end is the end of the round.
      const round = next === null ? ended || started === 0 : ended && after >= started;
      ended ||= next === null;
      if (removed >= query.limit || contended || round || (!thorough && slices >= SLICES_A_PASS)) {
        this.#sweptTo.set(tenant, ended && !thorough && removed < query.limit ? 0 : after);
        if (!ended && !contended) query.unfinished?.();
        return removed;
      }
    }
  }

  async #watch(always: boolean): Promise<void> {
    const now = performance.now();
    if (!always && now - this.#watchedAt < WATCH_EVERY_MS) return;
    this.#watchedAt = now;
    while (await this.#run.watch()) {
      // One step at a time: callers write in between.
    }
  }
}

/** The young before the watched: a claim that becomes watched in between is then met twice rather than never. */
function sourcesOf({ states, lapsed, keyPrefix }: ListQuery): Source[] {
  if (lapsed === true) return [{ from: "young" }, { from: "watched" }];
  if (keyPrefix !== undefined && keyPrefix.length >= SELECTIVE_PREFIX) return [{ from: "keys" }];
  if (states?.every((state) => INDEXED.includes(state)))
    return [...new Set(states)].map((state) => ({ from: "state", state }));
  return [{ from: "rows" }];
}

function statsOf(counts: readonly Count[], lapsed: number, oldest: Oldest | null): LedgerStats {
  const tally = new Tally();
  for (const { action, state, n } of counts) tally.add(action, state, n);
  return tally.stats({ lapsed, oldestPendingAt: oldest?.pending ?? null, oldestUnknownAt: oldest?.unknown ?? null });
}
