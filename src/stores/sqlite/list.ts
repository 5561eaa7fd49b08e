/** What a list asks for, as conditions of a statement. */
import { configError } from "../../core/errors.ts";
import type { Instant } from "../../core/record.ts";
import type { ListQuery } from "../../core/store.ts";

/** The rows whose lease may be over: the watched ones, and those too young to be watched yet. */
export const LAPSED = `id IN (
    SELECT id FROM nevertwice_records WHERE lease_watch IS NOT NULL
    UNION ALL
    SELECT id FROM nevertwice_records WHERE id > (SELECT CAST(value AS INTEGER) FROM nevertwice_meta WHERE name = 'watched_to'))
  AND lease_until IS NOT NULL AND (lease_until <= ? OR lease_epoch <> ?)`;

/** `byKey`: the beginning of the key is what the rows are found by; otherwise the ids they are walked by. */
export function listFilter(query: ListQuery, at: Instant, byKey = false): { where: string[]; values: unknown[] } {
  const where: string[] = [];
  const values: unknown[] = [];
  const equal = (column: string, value: string | undefined) => {
    if (value === undefined) return;
    where.push(`${column} = ?`);
    values.push(value);
  };
  equal("tenant", query.tenant);
  equal("action", query.action);
  equal("scope", query.scope);
  const inDoc = (field: "agent" | "providerId", wanted: readonly string[] | undefined) => {
    if (wanted === undefined) return;
    // A document that is damaged must not fail the list: it is looked into only where it has the member as it is written.
    const found = wanted.map(
      () => `CASE WHEN instr(doc, ?) > 0 AND json_valid(doc) THEN json_extract(doc, '$.${field}') = ? ELSE 0 END`,
    );
    where.push(`(${found.join(" OR ") || "0"})`);
    for (const value of wanted) values.push(`"${field}":${JSON.stringify(value)}`, value);
  };
  inDoc("agent", query.agent === undefined ? undefined : [query.agent]);
  inDoc("providerId", query.providerIds);
  if (query.states !== undefined) {
    where.push("+state IN (SELECT value FROM json_each(?))");
    values.push(JSON.stringify(query.states));
  }
  if (query.lapsed === true) {
    where.push("lease_until IS NOT NULL AND (lease_until <= ? OR lease_epoch <> ?)");
    values.push(at.steady, at.epoch);
  }
  if (query.keyPrefix !== undefined) {
    const key = byKey ? "key" : "+key";
    where.push(`${key} >= ? AND ${key} < ?`);
    values.push(query.keyPrefix, `${query.keyPrefix}\uffff`);
  }
  return { where, values };
}

export function cursorId(cursor: string): number {
  const id = Number(cursor);
  if (!Number.isSafeInteger(id) || id < 0 || cursor.trim() === "") {
    throw configError(
      `list: ${JSON.stringify(cursor)} is not a cursor of this store. Use the cursor of the page before, as it came.`,
    );
  }
  return id;
}
