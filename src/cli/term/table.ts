/** Tables that fit the terminal: columns that may shrink give way, the widest first (the last of several), and show an ellipsis. */
import type { Paint } from "./paint.ts";
import { cutTo, padEnd, padStart, widthOf, wrap } from "./text.ts";

export interface Column {
  readonly title: string;
  readonly align?: "right";
  /** May shrink to this many characters; a column without it keeps its width. */
  readonly min?: number;
  /** The last column only: goes on below itself instead of being cut. */
  readonly wraps?: boolean;
}

export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

export interface TableOptions {
  readonly width: number;
  readonly paint: Paint;
  readonly indent?: number;
}

const GAP = 2;

export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { width, paint, indent = 0 }: TableOptions,
): string[] {
  const widths = shrink(columns, naturalWidths(columns, rows), width - indent);
  const line = (cells: readonly Cell[]) => {
    const last = cells.length - 1;
    const parts = cells.map((cell, i) => renderCell(cell, columns[i] as Column, widths[i] as number, i === last));
    return " ".repeat(indent) + parts.join(" ".repeat(GAP));
  };
  const head = columns.map(({ title }) => ({ text: title, paint: paint.dim }));
  const wraps = columns.at(-1)?.wraps === true;
  return [line(head), ...rows.flatMap((row) => (wraps ? unrolled(row, widths.at(-1) as number) : [row])).map(line)];
}

/** One row as several, the text of its last cell spread over them. */
function unrolled(row: readonly Cell[], width: number): Cell[][] {
  const first = row.slice(0, -1);
  return wrap(textOf(row.at(-1) ?? ""), width).map((text, i) => [...(i === 0 ? first : first.map(() => "")), text]);
}

function naturalWidths(columns: readonly Column[], rows: readonly (readonly Cell[])[]): number[] {
  return columns.map(({ title }, i) => Math.max(widthOf(title), ...rows.map((row) => widthOf(textOf(row[i] ?? "")))));
}

function shrink(columns: readonly Column[], natural: readonly number[], room: number): number[] {
  const widths = [...natural];
  const used = () => widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1));
  for (let over = used() - room; over > 0; over -= 1) {
    let widest = -1;
    columns.forEach(({ min }, i) => {
      const width = widths[i] as number;
      if (min !== undefined && width > min && width >= (widths[widest] ?? 0)) widest = i;
    });
    if (widest === -1) break;
    widths[widest] = (widths[widest] as number) - 1;
  }
  return widths;
}

function renderCell(cell: Cell, { align }: Column, width: number, last: boolean): string {
  const cut = cutTo(textOf(cell), width);
  // No blanks at a line's end: they wrap in a terminal that is exactly as wide.
  const padded = align === "right" ? padStart(cut, width) : last ? cut : padEnd(cut, width);
  return typeof cell === "string" ? padded : cell.paint(padded);
}

function textOf(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text;
}
