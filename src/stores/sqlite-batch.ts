/**
 * A batch of puts on its way to the thread, and its results on the way back, in few and large values: handing over
 * sixteen small ones a row costs both threads more than the rows' own b-tree work.
 */
import type { BarePut, RowPut, RowPutResult } from "./sqlite-ledger.ts";
import { type PackedRow, packRow, type Row, unpackRow, versionOf } from "./sqlite-row.ts";

/** Per put: the row, packed where it can be, and the revision it replaces. */
export type Batch = readonly (readonly [row: PackedRow | BarePut["row"], expected: number | null])[];

/** What was there instead, by the put's place in the batch. Everything else was written. */
export type Conflicts = readonly (readonly [index: number, row: Row | null])[];

export function packBatch(puts: readonly RowPut[]): Batch {
  return puts.map(({ row, text, expected }) => [packRow(row, text) ?? row, expected]);
}

export function unpackBatch(batch: Batch): BarePut[] {
  return batch.map(([row, expected]) => ({ row: isPacked(row) ? unpackRow(row) : row, expected }));
}

function isPacked(row: PackedRow | BarePut["row"]): row is PackedRow {
  return row.length === 3;
}

export function conflictsOf(results: readonly RowPutResult[]): Conflicts {
  const conflicts: [number, Row | null][] = [];
  for (let i = 0; i < results.length; i += 1) {
    const result = results[i] as RowPutResult;
    if (!result.ok) conflicts.push([i, result.row]);
  }
  return conflicts;
}

export function resultsOf(puts: readonly RowPut[], conflicts: Conflicts): RowPutResult[] {
  const results: RowPutResult[] = puts.map(({ row }) => ({ ok: true, version: versionOf(row) }));
  for (const [index, row] of conflicts) results[index] = { ok: false, row };
  return results;
}
