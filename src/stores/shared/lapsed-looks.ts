/**
 * When abandoned work (claimed, with a lease that has ended) was last looked for, for each kind of lease. Looking at every
 * lease would cost too much, and a lease takes longer to end than this. One time for all kinds would let a lease of one
 * kind use up the look of another, whose abandoned work would then never be found.
 */
import type { LeaseQuery } from "../../core/store.ts";
import { BoundedMap } from "./bounded-map.ts";

const LOOK_EVERY_MS = 5_000;
// A process has one or two kinds of lease for each worker and queue. Above this, all of them look again early.
const MOST_KINDS = 100;

export class LapsedLooks {
  readonly #lookedAt = new BoundedMap<string, number>(MOST_KINDS);

  /** A clock that was set back must not postpone the look. */
  due(query: LeaseQuery, now: number): boolean {
    const lookedAt = this.#lookedAt.get(leaseKind(query));
    return lookedAt === undefined || now - lookedAt >= LOOK_EVERY_MS || now < lookedAt;
  }

  /** A look that found less than it asked for: there is no more. */
  foundAll(query: LeaseQuery, now: number): void {
    this.#lookedAt.set(leaseKind(query), now);
  }
}

/** Two leases are of one kind where the same records may be handed out to both. */
export function leaseKind({ actions, tenant }: LeaseQuery): string {
  return JSON.stringify([tenant ?? null, actions ?? null]);
}
