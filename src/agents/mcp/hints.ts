/**
 * What an MCP server declares about its tools (annotations), and which tools pass unguarded because of it. A tool that only
 * reads, or that is idempotent by its own word, is called as often as the model asks: to a guard, writing "1", "2" and "1"
 * again into a file would look like a repeat, and the file would keep "2". destructiveHint says nothing about repeats.
 */
export interface ToolHints {
  readonly readOnlyHint?: boolean | undefined;
  readonly idempotentHint?: boolean | undefined;
}

/** Whether a tool passes that nobody has given options for. */
export function passesByHint(hints: ToolHints | undefined): boolean {
  return hints?.readOnlyHint === true || hints?.idempotentHint === true;
}

/** The same in a program, whose own word on `readOnly` wins. `named`: it gives this very tool options. */
export function passesInProgram(
  readOnly: boolean | undefined,
  hints: ToolHints | undefined,
  { named }: { readonly named: boolean },
): boolean {
  return readOnly ?? (named ? hints?.readOnlyHint === true : passesByHint(hints));
}
