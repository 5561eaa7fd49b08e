/** An error that no rule knows is held in doubt. Where it means that nothing was done, one line of code says so. */
import { UNCLASSIFIED } from "./classify.ts";
import { entryLabel, entryOf } from "./entry-name.ts";

/** Whether a doubt stands only because nobody said what its error means. */
export function isUnclassified(why: string | null): boolean {
  return why?.startsWith(UNCLASSIFIED) === true;
}

/** `unknown`: only the record is there, and a plain action may be a tool's. */
export type WrittenAs = "action" | "tool" | "unknown";

/** The line to add, for whoever writes the code: only what that code can have. `action`: its name in the ledger, which is the tool's unless given. */
export function wayOut(action: string, writtenAs: WrittenAs): string {
  const thrown =
    "If this error means that nothing was done, say so in the code: `throw refused(error)` where a corrected call may follow, `throw notSent(error)` where the same call may succeed later, `throw rejected(error)` where none will";
  const { kind } = entryOf(action);
  // A sequence and a job have no option `classify`.
  if (kind !== "action" && kind !== "step") return `${thrown}. ${harmless(kind)}`;
  if (kind === "step") return `${thrown}; or give the step ${CLASSIFY}. ${harmless(kind)}`;
  const forTool = `For a guarded tool whose errors all mean that nothing was done, add its option: ${errorsOption(action)}.`;
  if (writtenAs === "tool") return `${thrown}. ${forTool}`;
  const forAction = `${thrown}; or give the action ${CLASSIFY}. ${harmless(kind)}`;
  return writtenAs === "action" ? forAction : `${forAction} ${forTool}`;
}

/** For the developer, once per action and kind of error. */
export function unclassifiedWarning(action: string, why: string, writtenAs: WrittenAs): string {
  return `${entryLabel(action)}: its attempt ended with ${why}, so it may have happened: it is held until somebody settles it (nevertwice ls --doubt). ${wayOut(action, writtenAs)}`;
}

const CLASSIFY = '`classify: (error) => "refused" | "not-sent" | "rejected" | undefined`';

function harmless(kind: string): string {
  return `If it may run twice without harm, give the ${kind} \`doubt: "retry"\`.`;
}

function errorsOption(name: string): string {
  const property = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
  return `\`tools: { ${property}: { errors: "not-done" } }\``;
}
