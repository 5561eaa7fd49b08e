/** Which records one lease of a worker asks for, and how far it takes them. */
import type { Stored } from "../core/store.ts";
import type { Definition } from "../engine/definition.ts";

/** Actions whose records are taken the same way, for the same time. */
export interface LeaseGroup {
  /** Its records need nothing but a mark before they begin. */
  readonly plain: boolean;
  readonly leaseMs: number;
  readonly actions: readonly string[];
  /** The last lease brought BULK_ROWS or more, none of them in an order: the next may go straight to `sent`. */
  bulk: boolean;
  /** The last look brought less than asked for. */
  idle: boolean;
}

// A lease for more than this may go straight to `sent`, where nothing has to be done before an effect begins.
const BULK_ROWS = 64;

export function leaseGroups(definitions: readonly Definition[]): readonly LeaseGroup[] {
  const groups = new Map<string, LeaseGroup & { actions: string[] }>();
  for (const { name, policy, prepare, manual, limit, schema } of definitions) {
    const { leaseMs } = policy;
    const plain = prepare === undefined && !manual && limit === null && schema === undefined;
    const id = `${plain} ${leaseMs}`;
    const group = groups.get(id) ?? { plain, leaseMs, actions: [], idle: false, bulk: false };
    groups.set(id, group);
    group.actions.push(name);
  }
  return [...groups.values()];
}

export function leasedTo(group: LeaseGroup, limit: number): "claimed" | "sent" {
  return group.bulk && limit > BULK_ROWS ? "sent" : "claimed";
}

export function learnFrom(group: LeaseGroup, rows: readonly Stored[]): void {
  group.bulk = group.plain && rows.length >= BULK_ROWS && rows.every(({ record }) => !record.terms?.line);
}
