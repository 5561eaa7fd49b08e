/**
 * A command whose runner did not report its end, and whose exit code is in its file: the slot is settled by that code,
 * as the runner would have done it. Nothing is run for it.
 */
import { lstatSync } from "node:fs";
import { type LedgerRecord, leaseAlive, type Payload } from "../../core/record.ts";
import { instantOf, type Store } from "../../core/store.ts";
import { toStoredError } from "../../core/stored-error.ts";
import { type LedgerEvent, transition } from "../../core/transition.ts";
import { type AnyDraft, type DraftReader, groupOf, isRunnerGone, plainDraft, runnerDied } from "../slot-attempt.ts";
import { type ExitFolder, type KeptExit, NOT_BEGUN, readExitFile, removeExitFile, resultPlaces } from "./exit-file.ts";
import { CommandFailed, endOfCode } from "./failed.ts";
import { groupStanding, signalGroup } from "./process-group.ts";
import { type OwnResult, ResultFile } from "./result-file.ts";

export interface EndedCommand {
  /**
   * held: it ended without success, and the attempt was to be held for a person then. not-begun: its runner died before it
   * let the command begin, and the slot was given back.
   */
  readonly as: "done" | "failed" | "held" | "not-begun";
  /** Null: it exited with 0. */
  readonly error: CommandFailed | null;
  /** What is wrong with its own result, though it is done; null: nothing. */
  readonly note: string | null;
}

export interface SettlingOptions {
  readonly read?: DraftReader;
  /** Where the files of this ledger are for this process; null: only where the attempt says. */
  readonly folder?: ExitFolder | null;
  /** As the ledger stores a result. */
  readonly store?: (value: unknown, record: LedgerRecord) => Payload | null;
}

const plain = (value: unknown): Payload => ({ json: JSON.stringify(value) });

/** Null: there is nothing to settle, or no file says how it ended. */
export async function settleEnded(
  store: Store,
  key: string,
  { read = plainDraft, folder = null, store: stored = plain }: SettlingOptions = {},
): Promise<EndedCommand | null> {
  const [found] = await store.read([key]);
  if (!found || (found.record.state !== "sent" && found.record.state !== "unknown")) return null;
  const { record } = found;
  const draft = readable(record, read);
  if (typeof draft?.exit !== "string" || isReported(record, read, store)) return null;
  const kept = readExitFile(draft.exit, record, folder);
  if (kept === null) return null;
  const write = async (event: LedgerEvent): Promise<boolean> => {
    const change = transition(record, event, instantOf(store));
    if (!change.ok) return false;
    const [written] = await store.write([{ record: change.record, expected: found.version }]);
    if (written?.ok !== true) return false;
    removeExitFile(draft.exit as string, folder);
    return true;
  };
  if (kept === NOT_BEGUN) {
    const back = { type: "give-back", hold: holdOf(record), dueAt: store.now() } as const;
    return (await write(back)) ? { as: "not-begun", error: null, note: null } : null;
  }
  const end = endOfCode(kept.exitCode, kept.durationMs);
  const error = end.exitCode === 0 ? null : new CommandFailed(end);
  const held = draft.failed === "hold" || draft.doubt === "hold";
  // The runner wrote that doubt itself, after it had asked the command to end: a failure adds nothing to it.
  if (error !== null && record.state === "unknown" && !runnerDied(record)) return null;
  const own = error === null ? ownResult(draft, kept, folder) : ({ as: "none" } as const);
  const event =
    error === null
      ? confirmed(record, stored(resultOf(kept, own), record))
      : held
        ? stillInDoubt(record, error)
        : failed(record, error);
  if (!(await write(event))) return null;
  if (error !== null) endRest(record, read);
  const note = own.as === "unusable" ? `its result was not kept: ${own.why}` : null;
  return { as: error === null ? "done" : held ? "held" : "failed", error, note };
}

/** How it ended is known: settleEnded() says what follows, and it is not run again before that. */
export function hasLeftExit(
  record: LedgerRecord,
  { read = plainDraft, folder = null }: Pick<SettlingOptions, "read" | "folder"> = {},
): boolean {
  const exit = readable(record, read)?.exit;
  const kept = typeof exit === "string" ? readExitFile(exit, record, folder) : null;
  return kept !== null && kept !== NOT_BEGUN && (kept.exitCode === 0 || runnerDied(record));
}

/** A command's draft is plain, which a program with `encrypt` refuses: then it says nothing. */
function readable(record: LedgerRecord, read: DraftReader): AnyDraft | null {
  try {
    return read(record);
  } catch {
    return null;
  }
}

/** Its runner lives, as far as anybody knows, and writes the end itself. */
function isReported(record: LedgerRecord, read: DraftReader, store: Store): boolean {
  if (record.state === "unknown" || !leaseAlive(record, instantOf(store))) return false;
  return !isRunnerGone(record, read);
}

const holdOf = ({ fence, holder }: LedgerRecord) => ({ fence, holder: holder ?? "" });

function confirmed(record: LedgerRecord, result: Payload | null): LedgerEvent {
  return { type: "confirm", hold: holdOf(record), result };
}

function failed(record: LedgerRecord, cause: CommandFailed): LedgerEvent {
  const error = toStoredError(cause);
  if (record.state === "sent") return { type: "not-sent", hold: holdOf(record), error, retryAt: null, final: false };
  return { type: "probed", fence: record.fence, quietForMs: 0, answer: { as: "not-done", noneLeft: true, error } };
}

function stillInDoubt(record: LedgerRecord, cause: CommandFailed): LedgerEvent {
  const error = toStoredError(cause);
  const why = cause.doubtReason;
  if (record.state === "sent") return { type: "doubt", hold: holdOf(record), why, error };
  return { type: "probed", fence: record.fence, quietForMs: 0, answer: { as: "unknown", why, error } };
}

/** The last lines went to the runner, and were lost with it. */
function resultOf({ durationMs }: KeptExit, own: OwnResult) {
  return { exitCode: 0, durationMs, lastLines: [], ...(own.as === "result" && { result: own.result }) };
}

/** A file that --result-file names is used by every slot: what was written after this command's end is another one's. */
function ownResult(draft: AnyDraft, { endedAt }: KeptExit, folder: ExitFolder | null): OwnResult {
  const places = draft.result === undefined ? resultPlaces(draft.exit as string, folder) : [draft.result];
  for (const place of places) {
    const writtenAt = lstatSync(place, { throwIfNoEntry: false })?.mtimeMs;
    if (writtenAt === undefined || writtenAt > endedAt) continue;
    return new ResultFile(place).read();
  }
  return { as: "none" };
}

/** What a failed command left running would meet the next attempt. */
function endRest(record: LedgerRecord, read: DraftReader): void {
  const group = groupOf(record, read);
  if (group !== null && groupStanding(group) === "alive") signalGroup(group.group, "SIGTERM");
}
