/**
 * Rows as columns: one parameter per column, whatever the number of rows, taken apart again by `unnest`.
 *
 * Text goes as one string with a separator (string_to_array): nothing is escaped on this side or parsed on the other. A
 * column that is null in every row is one null: `unnest` pads with nulls.
 */
import type { SqlText } from "./postgres-row.ts";
export interface ArrayColumn {
    readonly name: string;
    readonly type: string;
}
/** Collects the parameters of one statement. */
export declare class Parameters {
    #private;
    readonly values: SqlText[];
    add(value: SqlText): string;
    /**
     * A FROM item that yields the rows. Behind OFFSET 0 the planner does not see how many rows there are and takes ten:
     * with the real number (500) it would rather read a table of 30 MB from end to end than look 500 keys up.
     */
    rows(alias: string, columns: readonly ArrayColumn[], rows: readonly (readonly SqlText[])[]): string;
}
export declare function escapedArray(texts: readonly SqlText[]): string;
