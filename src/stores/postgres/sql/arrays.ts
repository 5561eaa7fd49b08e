/** The parameters of one statement. Rows go as columns: an array for each, taken apart again by `unnest`. */
import type { SqlText } from "./row.ts";

/** What the rows hold in a column: each its own text, or all the same. */
export interface GivenColumn {
  readonly name: string;
  readonly type: string;
  readonly given: { readonly each: readonly SqlText[] } | { readonly same: SqlText };
}

/** Rows as SQL: where they come from, and what a column is called there. */
export interface RowSource {
  readonly from: string;
  column(name: string): string;
}

export class Parameters {
  readonly values: SqlText[] = [];

  add(value: SqlText): string {
    this.values.push(value);
    return `$${this.values.length}::text`;
  }

  /**
   * At least one column is an array. Behind OFFSET 0 the planner does not see how many rows there are and
   * takes ten: with the real number (500) it would rather read a table of 30 MB from end to end than look 500 keys up.
   * Unpacked in a select list, not in FROM: there each column's array is first written to a store of rows of its own.
   */
  rows(columns: readonly GivenColumn[]): RowSource {
    const packed = columns.map(({ name, type, given }) => {
      if ("each" in given) return `${this.add(arrayText(type, given.each))}::${type}[] AS ${name}`;
      return `${given.same === null ? "NULL" : this.add(given.same)}::${type} AS ${name}`;
    });
    const unpacked = columns.map(({ name, given }) => ("each" in given ? `unnest(p.${name}) AS ${name}` : `p.${name}`));
    return {
      from: `(SELECT ${unpacked.join(", ")} FROM (SELECT ${packed.join(", ")} OFFSET 0) p) i`,
      column: (name) => `i.${name}`,
    };
  }
}

function arrayText(type: string, texts: readonly SqlText[]): string {
  if (type === "bytea") return `{"\\\\x${texts.join('","\\\\x')}"}`;
  if (type === "text") return escapedArray(texts);
  // Numbers and booleans need no quotes.
  return `{${texts.map((text) => text ?? "NULL").join(",")}}`;
}

export function escapedArray(texts: readonly SqlText[]): string {
  const quoted = texts.map((text) => (text === null ? "NULL" : `"${text.replace(/["\\]/g, "\\$&")}"`));
  return `{${quoted.join(",")}}`;
}
