/** An error that no rule knows is held in doubt. Where it means that nothing was done, one line of code says so. */
import { UNCLASSIFIED } from "./classify.ts";
import { formatDuration } from "./duration.ts";
import { entryLabel, entryOf } from "./entry-name.ts";

/** Whether a doubt stands only because nobody said what its error means. */
export function isUnclassified(why: string | null): boolean {
  return why?.startsWith(UNCLASSIFIED) === true;
}

/** `unknown`: only the record is there, and a plain action may be a tool's. `proxy`: a tool of the MCP proxy, which has a config and no code. */
export type WrittenAs = "action" | "tool" | "proxy" | "unknown";

/** The line to add, for whoever writes the code: only what that code can have. `action`: its name in the ledger, which is the tool's unless given. */
export function wayOut(action: string, writtenAs: WrittenAs): string {
  const thrown =
    "If this error means that nothing was done, say so in the code: `throw refused(error)` where a corrected call may follow, `throw notSent(error)` where the same call may succeed later, `throw rejected(error)` where none will";
  const { kind } = entryOf(action);
  // The proxy names its records server/tool.
  const tool = action.slice(action.lastIndexOf("/") + 1);
  const inConfig = `"tools": { ${JSON.stringify(tool)}: { "errors": "not-done" } }`;
  if (writtenAs === "proxy")
    return `If the errors of ${tool} mean that nothing was done, say so in the proxy's config: ${inConfig}.`;
  // A sequence and a job have no option `classify`.
  if (kind !== "action" && kind !== "step") return `${thrown}. ${harmless(kind)}`;
  if (kind === "step") return `${thrown}; or give the step ${CLASSIFY}. ${harmless(kind)}`;
  const forProxy = tool === action ? "" : ` For a tool of the MCP proxy, say it in the proxy's config: ${inConfig}.`;
  const forTool = `For a guarded tool whose errors all mean that nothing was done, add its option: ${errorsOption(action)}.`;
  if (writtenAs === "tool") return `${thrown}. ${forTool}`;
  const forAction = `${thrown}; or give the action ${CLASSIFY}. ${harmless(kind)}`;
  return writtenAs === "action" ? forAction : `${forAction} ${forTool}${forProxy}`;
}

/** For the developer, once per action and kind of error. `heldForMs`: of a doubt that is held for a time only. */
export function unclassifiedWarning(action: string, why: string, writtenAs: WrittenAs, heldForMs?: number): string {
  const label = writtenAs === "tool" || writtenAs === "proxy" ? `tool ${action}` : entryLabel(action);
  const until =
    heldForMs === undefined
      ? "it is held until somebody settles it"
      : `it is held for ${formatDuration(heldForMs)}, unless somebody settles it before; then the next call runs`;
  return `${label}: its attempt ended with ${why}, so it may have happened: ${until} (nevertwice ls --doubt). ${wayOut(action, writtenAs)}`;
}

const CLASSIFY = '`classify: (error) => "refused" | "not-sent" | "rejected" | undefined`';

function harmless(kind: string): string {
  return `If it may run twice without harm, give the ${kind} \`doubt: "retry"\`.`;
}

function errorsOption(name: string): string {
  const property = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
  return `\`tools: { ${property}: { errors: "not-done" } }\``;
}
