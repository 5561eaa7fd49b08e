/** Which calls of a tool are of one turn, where its client does not say it: those under way together on one connection. */
import { configError } from "../../../core/errors.ts";
import type { Turn } from "../../tool/turns.ts";
import type { McpExtra } from "./scope.ts";

export type Connection = () => object | undefined;

/** A client that gives up says so, or its connection is closed: then the next identical call is made in the place of the first. */
export function turnOn(connection: Connection, tool: string) {
  return ({ extra, asTask }: { readonly extra: McpExtra; readonly asTask: boolean }): Turn | undefined => {
    const { requestInfo, http, sessionId, signal, mcpReq } = extra;
    if (requestInfo !== undefined || http !== undefined || sessionId !== undefined)
      throw configError(
        `tool ${JSON.stringify(tool)}: repeats over HTTP needs turn. Nothing was run: a call whose connection was lost cannot be told from a second one. Give turn: (extra) => ({ call, turn }), ids that the client sends in _meta, or leave repeats out.`,
      );
    const together = connection();
    // The client has its answer while a task works.
    if (together === undefined || asTask) return undefined;
    const over = (signal ?? (mcpReq as { signal?: unknown } | undefined)?.signal) as AbortSignal | undefined;
    return { call: extra, together, gone: () => over?.aborted === true };
  };
}
