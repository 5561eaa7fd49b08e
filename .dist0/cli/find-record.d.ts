/** From what a person typed to one record: a full key, or the beginning of one. */
import type { Stored } from "../core/store.ts";
import type { Context } from "./command.ts";
/** The key of the command line, without the ellipsis that a copy from elsewhere may bring along. */
export declare function keyOperand(context: Context, command: string): string;
/** The record a key or its beginning names; null where there is none. Several: an error that lists them. */
export declare function lookUp(context: Context, key: string): Promise<Stored | null>;
/** The same, for commands that need one. */
export declare function findRecord(context: Context, command: string): Promise<Stored>;
