/** One line on stderr that is written over: for a person at a terminal, and gone when the answer comes. */
import type { Io } from "./command.ts";
export declare function showProgress({ stderr }: Io, text: string): void;
export declare function endProgress({ stderr }: Io): void;
