/**
 * A batch of puts on its way to the thread, and its results on the way back, in few and large values: handing over
 * sixteen small ones a row costs both threads more than the rows' own b-tree work.
 */
import type { BarePut, RowPut, RowPutResult } from "./ledger.ts";
import { type Row, splitRow, splits, versionOf } from "./row.ts";

export interface Batch {
  /** The rows as the texts their checksums were taken of; one that cannot be split again, as it is. */
  readonly rows: readonly (string | BarePut["row"])[];
  /** Two numbers a row: its checksum, and the revision it replaces (NONE: there must be no row). */
  readonly numbers: readonly number[];
}

const NONE = -1;

/** What was there instead, by the put's place in the batch. Everything else was written. */
export type Conflicts = readonly (readonly [index: number, row: Row | null])[];

export function packBatch(puts: readonly RowPut[]): Batch {
  const rows: (string | BarePut["row"])[] = [];
  const numbers: number[] = [];
  for (const { row, text, expected } of puts) {
    rows.push(splits(row) ? text : row);
    numbers.push(row.at(-1) as number, expected ?? NONE);
  }
  return { rows, numbers };
}

export function unpackBatch({ rows, numbers }: Batch): BarePut[] {
  return rows.map((row, i) => {
    const expected = numbers[2 * i + 1] as number;
    return {
      row: typeof row === "string" ? splitRow(row, numbers[2 * i] as number) : row,
      expected: expected === NONE ? null : expected,
    };
  });
}

export function conflictsOf(results: readonly RowPutResult[]): Conflicts {
  const conflicts: [number, Row | null][] = [];
  for (let i = 0; i < results.length; i += 1) {
    const result = results[i] as RowPutResult;
    if (!result.ok) conflicts.push([i, result.row]);
  }
  return conflicts;
}

export function resultsOf(versions: readonly number[], conflicts: Conflicts): RowPutResult[] {
  const results: RowPutResult[] = versions.map((version) => ({ ok: true, version }));
  for (const [index, row] of conflicts) results[index] = { ok: false, row };
  return results;
}

export function versionsOf(puts: readonly RowPut[]): number[] {
  return puts.map(({ row }) => versionOf(row));
}
