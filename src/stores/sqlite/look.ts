/**
 * Looking at many rows, a slice at a time. A slice is one short read: it runs on the event loop where it is small, and on
 * a thread with a connection of its own where it is not. In WAL mode a reader does not block writers, and between two slices
 * other requests have their turn. So a list, a count or a sweep of a million rows stops no call.
 */
import type { Instant, State } from "../../core/record.ts";
import type { ListQuery, SweepQuery } from "../../core/store.ts";
import type { SqliteHandle } from "./driver.ts";
import { LAPSED, listFilter } from "./list.ts";
import { isIntact, type Row } from "./row.ts";
import { SELECT, Statements } from "./statements.ts";

/** Where the rows of a list come from, each in the order of their ids. */
export type Source =
  | { readonly from: "rows" }
  /** Rows of one state that has an index: due work, doubts, dead letters. */
  | { readonly from: "state"; readonly state: State }
  /** Rows with a lease: those in the index of leases, and those that are too young to be in it. */
  | { readonly from: "watched" }
  | { readonly from: "young" }
  /** Rows found by the beginning of their key. */
  | { readonly from: "keys" };

export interface ListSlice {
  readonly op: "list";
  readonly source: Source;
  readonly query: ListQuery;
  readonly at: Instant;
  /** The id behind which to go on; null: from the first row. */
  readonly after: number | null;
  /** Rows that are still wanted. */
  readonly most: number;
}

export interface CountSlice {
  readonly op: "count";
  readonly tenant?: string;
  readonly at: Instant;
  readonly after: number;
}

/** What is found by indexes alone: what waits, since when, and how many leases are over. */
export interface WaitingSlice {
  readonly op: "waiting";
  readonly tenant?: string;
  readonly at: Instant;
}

export interface ExpiredSlice {
  readonly op: "expired";
  readonly query: Pick<SweepQuery, "tenant" | "limit">;
  readonly at: Instant;
  readonly after: number;
}

export type Slice = ListSlice | CountSlice | WaitingSlice | ExpiredSlice;

export type RowWithId = Row & { readonly id: number };

export interface ListAnswer {
  readonly rows: readonly RowWithId[];
  /** Where to go on; null: this was the last of the source. */
  readonly next: number | null;
}

export interface Count {
  readonly action: string;
  readonly state: State;
  readonly n: number;
}

export interface CountAnswer {
  readonly counts: readonly Count[];
  readonly lapsed: number;
  /** With the last slice. */
  readonly oldest: Oldest | null;
  readonly next: number | null;
}

/** Since when the longest waiting of a state waits. */
export interface Oldest {
  readonly pending: number | null;
  readonly unknown: number | null;
}

export interface WaitingAnswer {
  readonly counts: readonly Count[];
  readonly lapsed: number;
  readonly oldest: Oldest;
}

export interface ExpiredAnswer {
  /** Id and revision of rows that are past their keep and can be read. */
  readonly found: readonly (readonly [id: number, rev: number])[];
  readonly next: number | null;
}

export type AnswerOf<S extends Slice> = S extends ListSlice
  ? ListAnswer
  : S extends CountSlice
    ? CountAnswer
    : S extends WaitingSlice
      ? WaitingAnswer
      : ExpiredAnswer;

/** How many rows a slice reads: few on the event loop, more where nobody waits for the thread. */
export const SMALL_SLICE = 500;
export const LARGE_SLICE = 5_000;

export class SqliteLook {
  readonly #statements: Statements;

  constructor(db: SqliteHandle) {
    this.#statements = new Statements(db);
  }

  /** Null: this is more than `size` rows of work, and there is no smaller slice of it. */
  answer<S extends Slice>(slice: S, size: number): AnswerOf<S> | null {
    switch (slice.op) {
      case "list":
        return this.#list(slice, size) as AnswerOf<S> | null;
      case "count":
        return this.#count(slice, size) as AnswerOf<S>;
      case "waiting":
        return (size < LARGE_SLICE && this.#rowsAbove(size) ? null : this.#waiting(slice)) as AnswerOf<S> | null;
      case "expired":
        return this.#expired(slice, size) as AnswerOf<S>;
    }
  }

  #list(slice: ListSlice, size: number): ListAnswer | null {
    switch (slice.source.from) {
      case "keys":
        return this.#byKeys(slice);
      case "watched":
        return size < LARGE_SLICE && this.#watchedAbove(size) ? null : this.#watched(slice);
      case "state":
        return this.#byState(slice, slice.source.state, size);
      case "young":
        return this.#byRows(slice, size, this.#watchedTo());
      case "rows":
        return this.#byRows(slice, size, 0);
    }
  }

  /** A range of ids, from the first that there is: what was swept leaves gaps. */
  #byRows(slice: ListSlice, size: number, above: number): ListAnswer {
    const { query, after } = slice;
    const newest = isNewestFirst(query);
    const first = newest ? this.#lastId(after) : this.#firstId(Math.max(above, after ?? 0));
    if (first === null || first <= above) return { rows: [], next: null };
    const low = newest ? Math.max(above + 1, first - size + 1) : first;
    const high = newest ? first : first + size - 1;
    const leased = slice.source.from === "young" ? " AND lease_until IS NOT NULL" : "";
    const ended = newest ? low <= Math.max(above + 1, this.#firstId(0) ?? 0) : high >= (this.#lastId(null) ?? 0);
    return this.#page(slice, `id BETWEEN ? AND ?${leased}`, [low, high], ended ? null : newest ? low : high);
  }

  #byState(slice: ListSlice, state: State, size: number): ListAnswer {
    const newest = isNewestFirst(slice.query);
    const from = slice.after ?? (newest ? Number.MAX_SAFE_INTEGER : 0);
    const [compare, order] = newest ? ["<", "DESC"] : [">", "ASC"];
    // So many entries of the index, whether they are wanted or not.
    const [end] = this.#all(
      `SELECT id FROM nevertwice_records WHERE attention_at IS NOT NULL AND state = ? AND id ${compare} ? ORDER BY id ${order} LIMIT 1 OFFSET ?`,
      [state, from, size],
    ) as { id: number }[];
    const inIndex = "attention_at IS NOT NULL AND state = ?";
    if (end === undefined) return this.#page(slice, `${inIndex} AND id ${compare} ?`, [state, from], null);
    const [low, high] = newest ? [end.id, from - 1] : [from + 1, end.id];
    return this.#page(slice, `${inIndex} AND id BETWEEN ? AND ?`, [state, low, high], end.id);
  }

  /** All of them, sorted: there are as many as there are live leases that have lasted a while. */
  #watched(slice: ListSlice): ListAnswer {
    const newest = isNewestFirst(slice.query);
    const beyond = newest ? "id < ?" : "id > ?";
    const from = slice.after ?? (newest ? Number.MAX_SAFE_INTEGER : 0);
    const watched = "id IN (SELECT id FROM nevertwice_records WHERE lease_watch IS NOT NULL)";
    return this.#page(slice, `${watched} AND lease_until IS NOT NULL AND ${beyond}`, [from], null);
  }

  #watchedAbove(count: number): boolean {
    return (
      this.#all("SELECT 1 FROM nevertwice_records WHERE lease_watch IS NOT NULL LIMIT 1 OFFSET ?", [count]).length > 0
    );
  }

  #byKeys(slice: ListSlice): ListAnswer {
    const newest = isNewestFirst(slice.query);
    const from = slice.after ?? (newest ? Number.MAX_SAFE_INTEGER : 0);
    // The plus keeps the planner from walking the ids: few rows begin like this.
    return this.#page(slice, newest ? "+id < ?" : "+id > ?", [from], null);
  }

  /** `end`: the last id that was looked at; null: everything was. */
  #page(slice: ListSlice, where: string, bounds: readonly unknown[], end: number | null): ListAnswer {
    const { query, at, most, source } = slice;
    const filter = listFilter(query, at, source.from === "keys");
    const order = isNewestFirst(query) ? "DESC" : "ASC";
    const sql = `${SELECT} WHERE ${[where, ...filter.where].join(" AND ")} ORDER BY id ${order} LIMIT ?`;
    const rows = this.#all(sql, [...bounds, ...filter.values, most]) as RowWithId[];
    return { rows, next: rows.length < most ? end : (rows.at(-1) as RowWithId).id };
  }

  #count({ tenant, at, after }: CountSlice, size: number): CountAnswer {
    const first = this.#firstId(after);
    if (first === null) return { counts: [], lapsed: 0, oldest: this.#oldest(tenant), next: null };
    const last = first + size - 1;
    const ended = last >= (this.#lastId(null) ?? 0);
    const rows = this.#all(
      `SELECT action, state, count(*) AS n, sum(lease_until IS NOT NULL AND (lease_until <= ? OR lease_epoch <> ?)) AS over
       FROM nevertwice_records WHERE id BETWEEN ? AND ?${own(tenant)} GROUP BY action, state`,
      [at.steady, at.epoch, first, last, ...of(tenant)],
    ) as (Count & { over: number })[];
    return {
      counts: rows.map(({ action, state, n }) => ({ action, state, n })),
      lapsed: rows.reduce((sum, { over }) => sum + over, 0),
      oldest: ended ? this.#oldest(tenant) : null,
      next: ended ? null : last,
    };
  }

  #waiting({ tenant, at }: WaitingSlice): WaitingAnswer {
    const counts = this.#all(
      `SELECT action, state, count(*) AS n FROM nevertwice_records WHERE attention_at IS NOT NULL${own(tenant)} GROUP BY state, action`,
      of(tenant),
    ) as Count[];
    const [over] = this.#all(`SELECT count(*) AS n FROM nevertwice_records WHERE ${LAPSED}${own(tenant)}`, [
      at.steady,
      at.epoch,
      ...of(tenant),
    ]) as { n: number }[];
    return { counts, lapsed: over?.n ?? 0, oldest: this.#oldest(tenant) };
  }

  #oldest(tenant: string | undefined): Oldest {
    const since = (state: State) => {
      const [first] = this.#all(
        `SELECT attention_at AS at FROM nevertwice_records WHERE state = ? AND attention_at IS NOT NULL${own(tenant)} ORDER BY attention_at LIMIT 1`,
        [state, ...of(tenant)],
      ) as { at: number }[];
      return first?.at ?? null;
    };
    return { pending: since("pending"), unknown: since("unknown") };
  }

  /** A damaged row is not named, whatever it says of its own expiry: its key would be free without anybody knowing. */
  #expired({ query, at, after }: ExpiredSlice, size: number): ExpiredAnswer {
    const { tenant, limit } = query;
    const first = this.#firstId(after);
    if (first === null) return { found: [], next: null };
    const last = first + size - 1;
    const rows = this.#all(
      `${SELECT} WHERE id BETWEEN ? AND ? AND expires_at <= ? AND state IN ('confirmed', 'failed')${own(tenant)} ORDER BY id LIMIT ?`,
      [first, last, at.now, ...of(tenant), limit],
    ) as RowWithId[];
    const found = rows.filter(isIntact).map(({ id, rev }) => [id, rev as number] as const);
    if (rows.length === limit) return { found, next: (rows.at(-1) as RowWithId).id };
    return { found, next: last >= (this.#lastId(null) ?? 0) ? null : last };
  }

  #rowsAbove(count: number): boolean {
    return this.#all("SELECT 1 FROM nevertwice_records LIMIT 1 OFFSET ?", [count]).length > 0;
  }

  #firstId(after: number): number | null {
    return (this.#all("SELECT min(id) AS id FROM nevertwice_records WHERE id > ?", [after])[0] as { id: number | null })
      .id;
  }

  #lastId(before: number | null): number | null {
    const below = before ?? Number.MAX_SAFE_INTEGER;
    return (this.#all("SELECT max(id) AS id FROM nevertwice_records WHERE id < ?", [below])[0] as { id: number | null })
      .id;
  }

  #watchedTo(): number {
    const [mark] = this.#all("SELECT CAST(value AS INTEGER) AS id FROM nevertwice_meta WHERE name = 'watched_to'", []);
    return (mark as { id: number } | undefined)?.id ?? 0;
  }

  #all(sql: string, values: readonly unknown[]): unknown[] {
    return this.#statements.all(sql, values);
  }
}

export function isNewestFirst({ order }: ListQuery): boolean {
  return (order ?? "newest") === "newest";
}

function own(tenant: string | undefined): string {
  return tenant === undefined ? "" : " AND tenant = ?";
}

function of(tenant: string | undefined): string[] {
  return tenant === undefined ? [] : [tenant];
}
