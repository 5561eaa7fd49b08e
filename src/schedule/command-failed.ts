/** How a command ended without success, as errors that the ledger keeps. */
import { DOUBT_REASON } from "../core/errors.ts";
import type { CommandEnd } from "./gated-child.ts";

/** Kept in the ledger. Not the name of the class, which a minified bundle changes. */
export const COMMAND_FAILED = "CommandFailed";

export class CommandFailed extends Error {
  override readonly name = COMMAND_FAILED;
  readonly end: CommandEnd;
  readonly code: string;
  readonly doubtReason: string;
  readonly [DOUBT_REASON]: string;

  constructor(end: CommandEnd) {
    const how = end.signal === null ? `exited with ${end.exitCode}` : `was ended by ${end.signal}`;
    const said = end.lastLines.length === 0 ? "" : `: ${end.lastLines.slice(-3).join(" | ")}`;
    super(`the command ${how} after ${end.durationMs} ms${said}`);
    this.end = end;
    this.doubtReason = `the command ${how}, and --on-failure is hold`;
    this[DOUBT_REASON] = this.doubtReason;
    this.code = end.signal ?? `EXIT_${end.exitCode}`;
  }
}

/** The shell that waits for the command was killed, and the command was not: nobody can know how it ended. */
export class CommandLost extends Error {
  override readonly name = "CommandLost";
  readonly [DOUBT_REASON]: string;

  constructor() {
    super("the shell that waits for the command was killed before the command ended, so its exit code is not known");
    this[DOUBT_REASON] = this.message;
  }
}
