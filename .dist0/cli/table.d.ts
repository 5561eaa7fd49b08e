/** Tables that fit the terminal: columns that may shrink give way, the widest first (the last of several), and show an ellipsis. */
import type { Paint } from "./paint.ts";
export interface Column {
    readonly title: string;
    readonly align?: "right";
    /** May shrink to this many characters; a column without it keeps its width. */
    readonly min?: number;
    /** The last column only: goes on below itself instead of being cut. */
    readonly wraps?: boolean;
}
export type Cell = string | {
    readonly text: string;
    readonly paint: (text: string) => string;
};
export interface TableOptions {
    readonly width: number;
    readonly paint: Paint;
    readonly indent?: number;
}
export declare function renderTable(columns: readonly Column[], rows: readonly (readonly Cell[])[], { width, paint, indent }: TableOptions): string[];
