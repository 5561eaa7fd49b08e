export {
  type Answer,
  type GuardedTool,
  type GuardToolOptions,
  guardTool,
  type ResultCodec,
} from "./guard-tool.ts";
export {
  ONCE_MORE_TOOL,
  type OnceMoreAsking,
  type OnceMoreTool,
  type OnceMoreToolOptions,
  onceMoreTool,
} from "./once-more-tool.ts";
export { type PromptFragmentOptions, type PromptOutcome, promptFragment } from "./prompt-fragment.ts";
export { type QueuedAnswer, type QueuedTool, type QueuedToolOptions, queuedTool } from "./queued-tool.ts";
export { STATUS_TOOL, type StatusTool, statusTool } from "./status-tool.ts";
export { type ToolMemory, type ToolMemoryOptions, toolMemory } from "./tool/memory.ts";
export type {
  AnyToolOptions,
  ErrorMeaning,
  Guarding,
  GuardMode,
  GuardOptions,
  ToolOptions,
  ToolsOptions,
} from "./tool/options.ts";
