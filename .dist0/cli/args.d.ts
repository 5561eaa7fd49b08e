import type { Command, Flags } from "./command.ts";
export declare const COMMON_FLAGS: Flags;
export declare class Args {
    #private;
    readonly operands: readonly string[];
    constructor(operands: readonly string[], values: ReadonlyMap<string, readonly string[]>);
    on(flag: string): boolean;
    /** The last one wins, as everywhere on a command line. */
    text(flag: string): string | undefined;
    /** Given several times, or with commas. */
    list(flag: string): string[];
    count(flag: string): number | undefined;
}
export interface Invocation {
    /** Null: none was named. */
    readonly command: Command | null;
    readonly args: Args;
}
export declare function parse(argv: readonly string[], commands: readonly Command[]): Invocation;
