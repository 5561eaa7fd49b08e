/** Several tools at once: a list, each under its own name, or a record, each under the name it has there. */
import { configError } from "../../core/errors.ts";
import {
  type AnyToolOptions,
  checkToolNames,
  checkToolsOptions,
  type GuardOptions,
  optionsOfTool,
  type ToolsOptions,
} from "./options.ts";

export interface Toolset<T, X> {
  /** The wrapper's name, for errors. */
  readonly where: string;
  /** What the wrapper takes besides, for errors. */
  readonly also?: string;
  /** The name of a tool in a list; absent where the framework knows records only. */
  nameOf?(tool: T): string;
  guard(tool: T, options: AnyToolOptions & GuardOptions<X>, name: string): T;
}

export function guardEach<T extends object, X>(
  tools: readonly T[] | Readonly<Record<string, T>>,
  options: ToolsOptions<X>,
  { where, also, nameOf, guard }: Toolset<T, X>,
): readonly T[] | Readonly<Record<string, T>> {
  if (typeof tools !== "object" || tools === null || (Array.isArray(tools) && nameOf === undefined)) {
    throw configError(
      `${where}: the second argument must be a record of tools${nameOf === undefined ? "" : " or a list of them"}${also === undefined ? "" : `, ${also}`}.`,
    );
  }
  checkToolsOptions(options, where);
  const named = Array.isArray(tools)
    ? (tools as readonly T[]).map((tool) => [(nameOf as (tool: T) => string)(tool), tool] as const)
    : Object.entries(tools as Readonly<Record<string, T>>);
  checkToolNames(
    options,
    named.map(([name]) => name),
    where,
  );
  const guarded = named.map(([name, tool]) => {
    const own = optionsOfTool(options, name);
    return [name, own === null ? tool : guard(tool, own, name)] as const;
  });
  return Array.isArray(tools) ? guarded.map(([, tool]) => tool) : Object.fromEntries(guarded);
}
