export {
  type Answer,
  type GuardedTool,
  type GuardToolOptions,
  guardTool,
  type ResultCodec,
} from "./guard-tool.ts";
export type {
  AnyToolOptions,
  ErrorMeaning,
  Guarding,
  GuardOptions,
  ToolOptions,
  ToolsOptions,
} from "./tool-options.ts";
