/** The commands, in the order the help shows them. */
import type { Command } from "./command.ts";
export declare const COMMANDS: readonly Command[];
