/** Who acts: the name of a program, a bot or a model. It is kept on records and events, and is no part of the key. */
import { configError } from "./errors.ts";
import { storableText, unstorableIn } from "./storable-text.ts";

export const LONGEST_AGENT = 200;
// Lists and logs show the name: a line break or an escape sequence in it could forge what they say.
const CONTROL = /\p{Cc}|[\u2028\u2029]/u;
const ALL_CONTROL = new RegExp(CONTROL, "gu");

/** A name that somebody chose: what cannot be kept as it is, is refused. */
export function checkAgent(agent: unknown, where: string): asserts agent is string {
  if (typeof agent !== "string" || agent.trim() === "" || agent.length > LONGEST_AGENT) {
    const is = typeof agent === "string" ? `a string of ${agent.length} characters` : String(agent);
    throw configError(
      `${where}: agent is ${is}. It takes a name of 1 to ${LONGEST_AGENT} characters, not blank, such as "billing-bot". Leave it out where no agent is to be named.`,
    );
  }
  const control = CONTROL.exec(agent);
  if (control !== null)
    throw configError(`${where}: agent contains a control character (at position ${control.index}). Leave it out.`);
  const unstorable = unstorableIn(agent);
  if (unstorable !== null) throw configError(`${where}: agent: ${unstorable}. Leave that character out.`);
}

/** A name that a framework gave: made fit to be kept, since the call must not fail for it. Undefined: there is none. */
export function agentFrom(name: unknown): string | undefined {
  if (typeof name !== "string") return undefined;
  const fit = storableText(name.replace(ALL_CONTROL, " ").trim().slice(0, LONGEST_AGENT));
  return fit === "" ? undefined : fit;
}
