/**
 * Where the next lease begins to look. A snapshot that somebody holds open keeps vacuum, and the hints an index leaves
 * itself, from removing the entries of work that was handed out: each lease from the very beginning would step over all
 * of them again (F47). So a lease goes on where the last one ended, and one from the beginning is made now and then, for
 * what came to stand before that place since: urgent work, and transactions that committed late.
 */
import type { LeaseQuery } from "../../../core/store.ts";
import { BoundedMap } from "../../shared/bounded-map.ts";
import { leaseKind } from "../../shared/lapsed-looks.ts";

const FROM_THE_BEGINNING_MS = 500;
// Kinds of lease in one process: one or two a worker.
const MOST_KINDS = 100;

interface Place {
  readonly since: number;
  readonly lookedAt: number;
}

export class LeaseFloor {
  readonly #places = new BoundedMap<string, Place>(MOST_KINDS);

  /** Null: from the beginning. */
  of(query: LeaseQuery, now: number): number | null {
    const place = this.#places.get(leaseKind(query));
    return place === undefined || now - place.lookedAt >= FROM_THE_BEGINNING_MS ? null : place.since;
  }

  /** A full batch that ended at `since`: everything before it is handed out, or in others' hands. */
  reached(query: LeaseQuery, since: number, from: number | null, now: number): void {
    const kind = leaseKind(query);
    const lookedAt = from === null ? now : (this.#places.get(kind)?.lookedAt ?? now);
    this.#places.set(kind, { since, lookedAt });
  }

  /** There was less than asked for. */
  forget(query: LeaseQuery): void {
    this.#places.delete(leaseKind(query));
  }
}
