import type { Io } from "./command.ts";
export declare function run(argv: readonly string[], io: Io): Promise<number>;
