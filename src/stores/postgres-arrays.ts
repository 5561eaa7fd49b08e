/**
 * Rows as columns: one parameter per column, whatever the number of rows, taken apart again by `unnest`.
 *
 * Text goes as one string with a separator (string_to_array): nothing is escaped on this side or parsed on the other. A
 * column that is the same in every row (state, action, tenant, fence … of most batches) is one value: half the bytes.
 */
import type { SqlText } from "./postgres-row.ts";

export interface ArrayColumn {
  readonly name: string;
  readonly type: string;
}

/** Rows as SQL: where they come from, and what a column is called there. */
export interface RowSource {
  readonly from: string;
  column(name: string): string;
}

// Control characters that JSON never holds unescaped.
const SEPARATOR = "\u001e";
const NULL_MARK = "\u001d";

/** Collects the parameters of one statement. */
export class Parameters {
  readonly values: SqlText[] = [];
  #separators: { readonly separator: string; readonly nullMark: string } | null = null;

  add(value: SqlText): string {
    this.values.push(value);
    return `$${this.values.length}::text`;
  }

  /**
   * The first column differs in every row. Behind OFFSET 0 the planner does not see how many rows there are and takes
   * ten: with the real number (500) it would rather read a table of 30 MB from end to end than look 500 keys up.
   */
  rows(columns: readonly ArrayColumn[], rows: readonly (readonly SqlText[])[]): RowSource {
    const items: string[] = [];
    const [names, arrays]: [string[], string[]] = [[], []];
    const places = new Map<string, string>();
    for (const [at, { name, type }] of columns.entries()) {
      const same = at > 0 && rows.every((row) => row[at] === rows[0]?.[at]);
      items.push(`${same ? this.#value(type, rows[0]?.[at] as SqlText) : this.#array(type, rows, at)} AS a${at}`);
      places.set(name, same ? `p.a${at}` : `i.${name}`);
      if (same) continue;
      names.push(name);
      arrays.push(`p.a${at}`);
    }
    return {
      from: `(SELECT ${items.join(", ")} OFFSET 0) p CROSS JOIN LATERAL unnest(${arrays.join(", ")}) AS i(${names.join(", ")})`,
      column: (name) => places.get(name) as string,
    };
  }

  #value(type: string, text: SqlText): string {
    if (text === null) return `NULL::${type}`;
    return type === "text" ? this.add(text) : `${this.add(text)}::${type}`;
  }

  #array(type: string, rows: readonly (readonly SqlText[])[], at: number): string {
    if (type === "text") return this.#texts(rows.map((row) => row[at] as SqlText));
    const literal = type === "bytea" ? byteaArray(rows, at) : plainArray(rows, at);
    return `${this.add(literal)}::${type}[]`;
  }

  #texts(texts: readonly SqlText[]): string {
    // string_to_array takes an empty string for no element at all: one row goes as a row of its own.
    if (texts.length === 1) return `ARRAY[${this.add(texts[0] as SqlText)}]`;
    if (texts.some((text) => text !== null && (text.includes(SEPARATOR) || text.includes(NULL_MARK)))) {
      return `${this.add(escapedArray(texts))}::text[]`;
    }
    const joined = texts.map((text) => text ?? NULL_MARK).join(SEPARATOR);
    this.#separators ??= { separator: this.add(SEPARATOR), nullMark: this.add(NULL_MARK) };
    return `string_to_array(${this.add(joined)}, ${this.#separators.separator}, ${this.#separators.nullMark})`;
  }
}

/** Any column as the text of one array, whatever it holds. */
export function arrayText(type: string, rows: readonly (readonly SqlText[])[], at: number): string {
  if (type === "bytea") return byteaArray(rows, at);
  return type === "text" ? escapedArray(rows.map((row) => row[at] as SqlText)) : plainArray(rows, at);
}

/** Numbers and booleans need no quotes. */
function plainArray(rows: readonly (readonly SqlText[])[], at: number): string {
  let text = "";
  for (const row of rows) text += `,${row[at] ?? "NULL"}`;
  return `{${text.slice(1)}}`;
}

function byteaArray(rows: readonly (readonly SqlText[])[], at: number): string {
  let text = "";
  for (const row of rows) text += `,"\\\\x${row[at]}"`;
  return `{${text.slice(1)}}`;
}

export function escapedArray(texts: readonly SqlText[]): string {
  const quoted = texts.map((text) => (text === null ? "NULL" : `"${text.replace(/["\\]/g, "\\$&")}"`));
  return `{${quoted.join(",")}}`;
}
