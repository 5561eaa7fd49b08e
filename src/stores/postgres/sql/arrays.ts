/**
 * Rows as columns: one parameter per column, whatever the number of rows, taken apart again by `unnest`.
 *
 * Text goes as one string with a separator (string_to_array): nothing is escaped on this side or parsed on the other.
 * Bytes go as such text in hexadecimal and are decoded row by row, for the same reason. A column that is the same in
 * every row (state, action, tenant, fence … of most batches) is one value: half the bytes. Numbers of many digits (times,
 * revisions) lie close together, and go as the first of them and short distances from it; where those are the same for
 * several columns (the times of a first claim), once.
 */
import type { SqlText } from "./row.ts";

interface Named {
  readonly name: string;
  readonly type: string;
}

/** What the rows hold in a column: each its own text, each its own whole number, or (both null) all the same. */
export interface GivenColumn extends Named {
  readonly texts: readonly SqlText[] | null;
  readonly numbers: Float64Array | null;
  readonly value: SqlText;
}

export function ofTexts({ name, type }: Named, texts: readonly SqlText[]): GivenColumn {
  return { name, type, texts, numbers: null, value: null };
}

export function ofNumbers({ name, type }: Named, numbers: Float64Array): GivenColumn {
  return { name, type, texts: null, numbers, value: null };
}

export function ofOne({ name, type }: Named, value: SqlText): GivenColumn {
  return { name, type, texts: null, numbers: null, value };
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
   * At least one column is a list. Behind OFFSET 0 the planner does not see how many rows there are and
   * takes ten: with the real number (500) it would rather read a table of 30 MB from end to end than look 500 keys up.
   * Unpacked in a select list, not in FROM: there each column's list is first written to a store of rows of its own.
   */
  rows(columns: readonly GivenColumn[]): RowSource {
    const rows = new Unpacking();
    for (const { name, type, texts, numbers, value } of columns) {
      if (numbers !== null) {
        const base = numbers[0] as number;
        const list = rows.distances(distancesFrom(base, numbers), (distances) => this.#array("bigint", distances));
        const sum = `(${list} + ${rows.base(base, (text) => this.#value("bigint", text))})`;
        rows.place(name, type === "bigint" ? sum : `${sum}::${type}`);
      } else if (texts !== null) {
        const list = rows.list(this.#array(type, texts));
        rows.place(name, type === "bytea" ? `decode(${list}, 'hex')` : list);
      } else rows.place(name, rows.scalar(this.#value(type, value)));
    }
    return rows.source();
  }

  #value(type: string, text: SqlText): string {
    if (text === null) return `NULL::${type}`;
    return type === "text" ? this.add(text) : `${this.add(text)}::${type}`;
  }

  #array(type: string, texts: readonly SqlText[]): string {
    if (type !== "text" && type !== "bytea") return `${this.add(plainArray(texts))}::${type}[]`;
    // string_to_array takes an empty string for no element at all: one row goes as a row of its own.
    if (texts.length === 1) return `ARRAY[${this.add(texts[0] as SqlText)}]`;
    if (type === "text" && texts.some(isMarked)) return `${this.add(escapedArray(texts))}::text[]`;
    const joined = texts.map((text) => text ?? NULL_MARK).join(SEPARATOR);
    this.#separators ??= { separator: this.add(SEPARATOR), nullMark: this.add(NULL_MARK) };
    return `string_to_array(${this.add(joined)}, ${this.#separators.separator}, ${this.#separators.nullMark})`;
  }
}

/** The lists as they travel, and the rows that are made of them. */
class Unpacking {
  readonly #packed: string[] = [];
  readonly #unpacked: string[] = [];
  readonly #places = new Map<string, string>();
  readonly #bases = new Map<number, string>();
  readonly #distances: { readonly distances: Float64Array; readonly list: string }[] = [];

  scalar(sql: string): string {
    const name = this.#pack(sql);
    this.#unpacked.push(`p.${name}`);
    return `i.${name}`;
  }

  list(sql: string): string {
    const name = this.#pack(sql);
    this.#unpacked.push(`unnest(p.${name}) AS ${name}`);
    return `i.${name}`;
  }

  distances(distances: Float64Array, sql: (texts: readonly string[]) => string): string {
    const twin = this.#distances.find((other) => alike(other.distances, distances));
    if (twin !== undefined) return twin.list;
    const list = this.list(sql(textsOf(distances)));
    this.#distances.push({ distances, list });
    return list;
  }

  base(number: number, sql: (text: string) => string): string {
    const known = this.#bases.get(number);
    if (known !== undefined) return known;
    const base = this.scalar(sql(String(number)));
    this.#bases.set(number, base);
    return base;
  }

  place(column: string, sql: string): void {
    this.#places.set(column, sql);
  }

  source(): RowSource {
    return {
      from: `(SELECT ${this.#unpacked.join(", ")} FROM (SELECT ${this.#packed.join(", ")} OFFSET 0) p) i`,
      column: (name) => this.#places.get(name) as string,
    };
  }

  #pack(sql: string): string {
    const name = `a${this.#packed.length}`;
    this.#packed.push(`${sql} AS ${name}`);
    return name;
  }
}

// Loops, as all that runs for every row of every batch.
function distancesFrom(base: number, numbers: Float64Array): Float64Array {
  const distances = new Float64Array(numbers.length);
  for (let at = 0; at < numbers.length; at += 1) distances[at] = (numbers[at] as number) - base;
  return distances;
}

function textsOf(numbers: Float64Array): string[] {
  const texts: string[] = [];
  for (let at = 0; at < numbers.length; at += 1) texts.push(String(numbers[at]));
  return texts;
}

function alike(these: Float64Array, those: Float64Array): boolean {
  for (let at = 0; at < these.length; at += 1) if (these[at] !== those[at]) return false;
  return true;
}

function isMarked(text: SqlText): boolean {
  return text !== null && (text.includes(SEPARATOR) || text.includes(NULL_MARK));
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
