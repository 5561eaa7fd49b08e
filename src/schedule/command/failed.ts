/** How a command ended, and without success, as errors that the ledger keeps. */
import { constants } from "node:os";
import { DOUBT_REASON } from "../../core/errors.ts";

export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly durationMs: number;
  /** The end of what it printed, on both streams in the order it came. */
  readonly lastLines: readonly string[];
  /** The gate was killed alone and the command went on without it: how it ended is not known. */
  readonly lost?: true;
}

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

/** A shell says a signal n as 128 + n; a command that exits with such a code itself says the same by it. */
export function endOfCode(code: number, durationMs: number): CommandEnd {
  const signal = Object.entries(constants.signals).find(([, number]) => code === 128 + number)?.[0];
  return signal === undefined
    ? { exitCode: code, signal: null, durationMs, lastLines: [] }
    : { exitCode: null, signal: signal as NodeJS.Signals, durationMs, lastLines: [] };
}
