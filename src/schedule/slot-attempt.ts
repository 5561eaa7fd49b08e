/**
 * What an attempt at a slot writes down before it begins, and what follows for whoever comes after it. A job is a
 * container: its effects are what is guarded. So a slot whose attempt failed, or whose runner died, may be run again,
 * unless something of it still runs or the attempt was to be held for a person.
 */
import { classify } from "../core/classify.ts";
import type { LedgerRecord } from "../core/record.ts";
import { instantOf, type Store } from "../core/store.ts";
import { transition } from "../core/transition.ts";
import { OWN_NAME } from "../engine/definition.ts";
import { HOLDER_NOTE, noteIn } from "../engine/holder-ids.ts";
import { COMMAND_FAILED } from "./command/failed.ts";
import {
  groupStanding,
  hasEnded,
  type ProcessGroup,
  processNote,
  processOfNote,
  type RunningProcess,
  thisProcess,
} from "./command/process-group.ts";

export interface AttemptDraft {
  /** The process that runs the job in code, or waits for the command. Absent: it could not be named. */
  readonly runner?: RunningProcess;
  /** Stated explicitly: whatever ends without success waits for a person. */
  readonly doubt?: "hold";
}

/** What is written down of a command: where it runs, and what its end is to mean. */
export interface CommandDraft extends AttemptDraft, ProcessGroup {
  readonly failed: "retry" | "hold";
  /** Its own call said so of a runner that is killed. Later calls say it anew: for those who look. */
  readonly stale?: "hold";
  /** Where its exit code is once it has ended. Absent: no such file could be made. */
  readonly exit?: string;
  /** Where --result-file has the command write its result. */
  readonly result?: string;
}

export type AnyDraft = Partial<CommandDraft>;

/** The draft as this process can read it; null: there is none, or it is sealed for others. */
export type DraftReader = (record: Pick<LedgerRecord, "draft">) => AnyDraft | null;

export const plainDraft: DraftReader = ({ draft }) =>
  draft === null || !("json" in draft) ? null : (JSON.parse(draft.json) as AnyDraft | null);

/** Whether an attempt in doubt was to be held for a person. One that cannot be read may have been. */
export function isHeld(record: LedgerRecord, read: DraftReader = plainDraft): boolean {
  const draft = read(record);
  if (draft === null && record.draft !== null) return true;
  if (draft?.doubt === "hold") return true;
  return !runnerDied(record) && (draft?.failed === "hold" || record.error?.name === COMMAND_FAILED);
}

/** Nobody reported the end of the attempt: its lease ran out. Otherwise its runner lived and wrote the doubt itself. */
export function runnerDied({ history, attempt }: LedgerRecord): boolean {
  const doubted = history.findLast(({ to }) => to === "unknown");
  return doubted?.attempt === attempt && doubted.event === "lapse";
}

/** A process group of the attempt has living members on this host. */
export function stillRuns(record: LedgerRecord, read: DraftReader = plainDraft): boolean {
  const group = groupOf(record, read);
  return group !== null && groupStanding(group) === "alive";
}

/** The process group that a job's record speaks of; null: none, or not readable. */
export function groupOf(record: Pick<LedgerRecord, "draft">, read: DraftReader = plainDraft): ProcessGroup | null {
  const group = read(record);
  return typeof group?.group === "number" && typeof group.started === "string" && typeof group.realm === "string"
    ? (group as ProcessGroup)
    : null;
}

/** For the action of a job: its claims name their process. Asked at each claim, since a process may be restored from a snapshot. */
export const CLAIMED_BY_PROCESS = {
  [OWN_NAME]: true as const,
  [HOLDER_NOTE]: (): string | undefined => {
    const runner = thisProcess();
    return runner === null ? undefined : processNote(runner);
  },
};

/** The process that holds the record; null: it is not named. The draft of an attempt that was resent names the one before. */
export function runnerOf(record: LedgerRecord, read: DraftReader = plainDraft): RunningProcess | null {
  return processOfNote(noteIn(record.holder)) ?? (record.state === "sent" ? read(record)?.runner : null) ?? null;
}

/** Held by a process of this host that has ended, whatever its lease says. */
export function isRunnerGone(record: LedgerRecord, read: DraftReader = plainDraft): boolean {
  if (record.state !== "claimed" && record.state !== "sent") return false;
  const runner = runnerOf(record, read);
  return runner !== null && hasEnded(runner);
}

/**
 * A runner that was killed keeps its lease until it ends. On a store of one host its process can be looked for instead: if
 * it has ended, the slot need not wait for the lease. What was marked is in doubt now; what was only claimed has not begun.
 */
export async function noticeDeadRunner(store: Store, key: string, read: DraftReader = plainDraft): Promise<boolean> {
  if (store.traits.hosts !== "one") return false;
  const [stored] = await store.read([key]);
  if (!stored || !isRunnerGone(stored.record, read)) return false;
  const change = transition(stored.record, { type: "lapse", gone: true }, instantOf(store));
  if (!change.ok) return false;
  const [written] = await store.write([{ record: change.record, expected: stored.version }]);
  return written?.ok === true;
}

/** Whatever a job threw, the container failed and may run again, unless the job itself refused or rejected it by name. */
export function failureVerdict(error: unknown, now: number): "not-sent" | undefined {
  const verdict = classify(error, now);
  if (verdict.kind === "refused" && verdict.byName === true) return undefined;
  // What is surely not sent may name the time of the next try.
  return verdict.kind === "rejected" || verdict.kind === "not-sent" ? undefined : "not-sent";
}
