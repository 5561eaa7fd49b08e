export {
  type Answer,
  type GuardedTool,
  type GuardToolOptions,
  guardTool,
  type ResultCodec,
} from "./guard-tool.ts";
export { STATUS_TOOL, type StatusTool, statusTool } from "./status-tool.ts";
export { type ToolMemory, type ToolMemoryOptions, toolMemory } from "./tool-memory.ts";
export type {
  AnyToolOptions,
  ErrorMeaning,
  Guarding,
  GuardOptions,
  ToolOptions,
  ToolsOptions,
} from "./tool-options.ts";
