/** --agent: who acts, for commands that act. $NEVERTWICE_AGENT unless given. */
import { checkAgent } from "../core/agent-name.ts";
import type { Context, Flag } from "./command.ts";
import { asUsage } from "./term/exit.ts";

export const AGENT: Flag = {
  value: "name",
  about: "who acts, for the records and events, default: $NEVERTWICE_AGENT",
};

/** As nevertwice() and calls take it. */
export function agentOf({ args, io }: Context): { readonly agent?: string } {
  const flag = args.text("agent");
  const agent = flag ?? io.env.NEVERTWICE_AGENT;
  if (agent === undefined || (flag === undefined && agent === "")) return {};
  asUsage(() => checkAgent(agent, flag === undefined ? "$NEVERTWICE_AGENT" : "--agent"));
  return { agent };
}
