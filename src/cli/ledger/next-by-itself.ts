/**
 * Slots of jobs, and runs, are containers: what they do is guarded inside of them. So a slot in doubt, or one that failed, is
 * run again by its next call unless it was to be held for a person. Nobody has to decide about it.
 */
import { entryOf } from "../../core/entry-name.ts";
import type { Instant, LedgerRecord } from "../../core/record.ts";
import { leaseAlive } from "../../core/record.ts";
import { NOT_BEGUN, readExitFile } from "../../schedule/command/exit-file.ts";
import { isHeld, isRunnerGone, plainDraft, runnerDied, stillRuns } from "../../schedule/slot-attempt.ts";
import { oneLine } from "../term/text.ts";

/** What the next call does about a container in doubt or failed, in words; null: somebody has to decide, or there is nothing. */
export function nextByItself(record: LedgerRecord, at: Instant): string | null {
  const { kind, name } = entryOf(record.action);
  if (kind !== "job" && kind !== "plan" && kind !== "run") return null;
  // A scheduler calls its slots again; whether a run that failed is called again is the program's own affair.
  if (record.state === "failed") return record.final || kind === "run" ? null : words(kind, name);
  const silent = record.state === "sent" && !leaseAlive(record, at);
  if (record.state !== "unknown" && !silent) return null;
  const command = ofCommand(record, at);
  if (command !== null) return command;
  const held = kind === "job" && (silent || runnerDied(record) ? heldIfSilent(record) : isHeld(record));
  return held ? null : words(kind, name);
}

/** A command whose runner died may still run, or have left its exit code; null: neither, as far as this host can tell. */
export function ofCommand(record: LedgerRecord, at: Instant): string | null {
  if (entryOf(record.action).kind !== "job") return null;
  const silent = record.state === "sent" && (!leaseAlive(record, at) || isRunnerGone(record));
  const exit = silent || (record.state === "unknown" && runnerDied(record)) ? plainDraft(record)?.exit : undefined;
  if (typeof exit !== "string") return null;
  // Its processes first: the shell leaves the exit code before it ends.
  if (stillRuns(record)) return "its command still runs; the next call after its end records the exit code";
  const kept = readExitFile(exit, record);
  if (kept === NOT_BEGUN) return "its command was not started; the next call for this slot runs it";
  return kept === null ? null : `its command exited with ${kept.exitCode}; the next call for this slot records it`;
}

/** A runner that fell silent reported no end: only what it wrote down before it began counts. */
export function heldIfSilent(record: LedgerRecord): boolean {
  const draft = plainDraft(record);
  return draft === null ? record.draft !== null : draft.doubt === "hold" || draft.stale === "hold";
}

function words(kind: "job" | "plan" | "run", name: string): string {
  if (kind === "run") return `the next call of nt.run(${JSON.stringify(oneLine(name))}, …) with its id goes on with it`;
  return "the next call for this slot runs it again";
}
