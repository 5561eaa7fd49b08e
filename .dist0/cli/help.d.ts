import type { Command, Context } from "./command.ts";
type Layout = Pick<Context, "paint" | "width">;
export declare function overview(commands: readonly Command[], layout: Layout): string[];
export declare function commandHelp(command: Command, layout: Layout): string[];
export {};
