/**
 * Rows as columns: one parameter per column, whatever the number of rows, taken apart again by `unnest`.
 *
 * Text goes as one string with a separator (string_to_array): nothing is escaped on this side or parsed on the other.
 * Bytes go as such text in hexadecimal and are decoded row by row, for the same reason. A column that is the same in
 * every row (state, action, tenant, fence … of most batches) is one value: half the bytes. One that is the same as
 * another (the times of a first claim) is that one.
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

/** The value of a column (by its place) in a row (by its place). */
export type ValueAt = (row: number, column: number) => SqlText;

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
  rows(columns: readonly ArrayColumn[], size: number, valueAt: ValueAt): RowSource {
    const items: string[] = [];
    const [names, arrays]: [string[], string[]] = [[], []];
    const places = new Map<string, string>();
    const sent: { readonly type: string; readonly texts: readonly SqlText[]; readonly place: string }[] = [];
    for (const [at, { name, type }] of columns.entries()) {
      const first = valueAt(0, at);
      const texts = at > 0 ? unlessAlike(first, at, size, valueAt) : all(at, size, valueAt);
      if (texts === null) {
        items.push(`${this.#value(type, first)} AS a${at}`);
        places.set(name, `p.a${at}`);
        continue;
      }
      const twin = sent.find((other) => other.type === type && alike(other.texts, texts));
      const place = twin?.place ?? (type === "bytea" ? `decode(i.${name}, 'hex')` : `i.${name}`);
      places.set(name, place);
      if (twin !== undefined) continue;
      sent.push({ type, texts, place });
      items.push(`${this.#array(type, texts)} AS a${at}`);
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

  #array(type: string, texts: readonly SqlText[]): string {
    if (type === "text" || type === "bytea") return this.#texts(texts);
    return `${this.add(plainArray(texts))}::${type}[]`;
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

// One column at a time: a copy of every row in the order of the columns would cost more than the statement's text.
function all(column: number, size: number, valueAt: ValueAt): SqlText[] {
  const texts: SqlText[] = [];
  for (let row = 0; row < size; row += 1) texts.push(valueAt(row, column));
  return texts;
}

/** Null where every row has `first`: most columns of most batches, and no list is made of them. */
function unlessAlike(first: SqlText, column: number, size: number, valueAt: ValueAt): SqlText[] | null {
  for (let row = 1; row < size; row += 1) if (valueAt(row, column) !== first) return all(column, size, valueAt);
  return null;
}

function alike(these: readonly SqlText[], those: readonly SqlText[]): boolean {
  for (let at = 0; at < these.length; at += 1) if (these[at] !== those[at]) return false;
  return true;
}

/** Any column as the text of one array, whatever it holds. */
export function arrayText(type: string, rows: readonly (readonly SqlText[])[], at: number): string {
  const texts = rows.map((row) => row[at] as SqlText);
  if (type === "bytea") return byteaArray(texts);
  return type === "text" ? escapedArray(texts) : plainArray(texts);
}

/** Numbers and booleans need no quotes. */
function plainArray(texts: readonly SqlText[]): string {
  return `{${texts.map((text) => text ?? "NULL").join(",")}}`;
}

function byteaArray(texts: readonly SqlText[]): string {
  return `{"\\\\x${texts.join('","\\\\x')}"}`;
}

export function escapedArray(texts: readonly SqlText[]): string {
  const quoted = texts.map((text) => (text === null ? "NULL" : `"${text.replace(/["\\]/g, "\\$&")}"`));
  return `{${quoted.join(",")}}`;
}
