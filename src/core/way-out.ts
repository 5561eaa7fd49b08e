/** An error that no rule knows is held in doubt. Where it means that nothing was done, one line of code says so. */
import { UNCLASSIFIED } from "./classify.ts";

/** Whether a doubt stands only because nobody said what its error means. */
export function isUnclassified(why: string | null): boolean {
  return why?.startsWith(UNCLASSIFIED) === true;
}

/** The line to add, for whoever writes the action or the tool. `name`: the action's name, which is the tool's unless given. */
export function wayOut(name: string): string {
  return `If this error means that nothing was done, say so in the code: \`throw notSent(error)\` where another try may succeed, \`throw rejected(error)\` where none will. For a guarded tool whose errors all mean that nothing was done, add its option: ${errorsOption(name)}.`;
}

function errorsOption(name: string): string {
  const property = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
  return `\`tools: { ${property}: { errors: "not-done" } }\``;
}
