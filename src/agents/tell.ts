/** What a model is told. Plain sentences: a model that is told "error" tries again, one that is told what happened does not. */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { formatDuration } from "../core/duration.ts";
import { messageOf } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { wallNow } from "../engine/real-timers.ts";

export interface Telling {
  /** The tool's name, as the model knows it. */
  readonly tool: string;
  /** The tool that answers questions about earlier calls, if the model has one. */
  readonly statusTool?: string | undefined;
  /** What the tool itself said when it failed. */
  readonly said?: string | undefined;
}

/**
 * What an answer is told by. Every message below has one of them in it, and no message has two that mean different things:
 * the fragment for a system prompt (prompt-fragment.ts) explains them.
 */
export const PHRASES = {
  done: "Already done at",
  inFlight: "In progress",
  accepted: "Accepted:",
  queued: "Recorded",
  unknown: "It may have happened",
  conflict: "Refused, and nothing was done",
  rejected: "Refused for good",
  failed: "It did not happen:",
  unreachable: "its ledger cannot be reached",
} as const;

type Done = Extract<Outcome<unknown>, { readonly status: "done" }>;

/** Stands before the result of a repeat. */
export function tellReplay(outcome: Done, { tool }: Telling): string {
  const differs = outcome.differs ?? [];
  const reworded =
    differs.length === 0
      ? ""
      : ` Your ${listOf(differs)} differs from what was sent then; what was sent first stands, and the new text was not sent.`;
  return `${PHRASES.done} ${when(outcome.at)}; this is that result. ${tool} was not run again.${reworded}`;
}

/** The answer of a tool that records: nothing has been done yet, and nothing is left to do. */
export function tellAccepted(key: string, telling: Telling): string {
  const { tool } = telling;
  return `${PHRASES.accepted} ${tool} is recorded, and a worker will do it. There is nothing to repeat, and nothing to wait for. ${askFirst(telling, key)} Reference: ${key}`;
}

/** A repeat whose first result could not be kept. */
export function tellResultNotKept(outcome: Done, why: string, { tool }: Telling): string {
  return `${PHRASES.done} ${when(outcome.at)}. ${tool} was not run again, and its result was not kept (${why}). Do not repeat it: there is nothing left to do. Reference: ${outcome.key}`;
}

/** Everything that is not done. */
export function tellRefusal(outcome: Exclude<Outcome<unknown>, Done>, telling: Telling): string {
  return [...sentences(outcome, telling), `Reference: ${outcome.key}`].join(" ");
}

/**
 * The ledger could not be asked, so that there is no outcome. What the store said is for operators: it names settings that a
 * model can do nothing about. `begun`: the tool had been started when the ledger stopped answering.
 */
export function tellUnavailable(error: unknown, tool: string, begun: boolean): string {
  if (begun)
    return `${PHRASES.unknown}: ${tool} was started, and its ledger did not answer afterwards. Do not repeat it, and do not try another way to the same end. Tell the user that it is open.`;
  if (isDamagedRecord(error))
    return `${PHRASES.unknown} by an earlier call, whose record cannot be read. ${tool} was not run now. Do not repeat it, and do not try another way to the same end. Tell the user that it is open.`;
  return `${tool} was not run: ${PHRASES.unreachable}. Nothing was sent. Tell the user; do not try another way.`;
}

/** The same for a tool that records: whether the write arrived is not known, and a repeat of it harms nothing. */
export function tellNotRecorded(tool: string): string {
  return `It is not known whether ${tool} is recorded: ${PHRASES.unreachable}. Nothing was sent by this call. Tell the user; do not try another way.`;
}

/** And for the status tool. */
export function tellStatusUnavailable(): string {
  return `No answer now: ${PHRASES.unreachable}. This says nothing about the call. Do not repeat the call; tell the user that it is open.`;
}

function sentences(outcome: Exclude<Outcome<unknown>, Done>, telling: Telling): string[] {
  const { tool } = telling;
  const ask = askFirst(telling, outcome.key);
  switch (outcome.status) {
    case "in_flight":
      return [
        `${PHRASES.inFlight}: ${tool} has been running for this since ${when(outcome.since)}, and was not started again.`,
        `Do not repeat it, and do not try another way to the same end.`,
        ask,
      ];
    case "queued":
      return [
        `${PHRASES.queued}: ${tool} will be run by a worker, due ${when(outcome.dueAt)}.`,
        `There is nothing to repeat.`,
        ask,
      ];
    case "unknown":
      return [
        ...(telling.said === undefined ? [] : [`${tool} failed: ${unended(telling.said)}.`]),
        `${PHRASES.unknown} all the same (attempt ${outcome.attempt}, ${when(outcome.since)}: ${outcome.why}), and it will not be run again by itself.`,
        ...(outcome.differs === undefined
          ? []
          : [
              `That was an earlier call with another ${listOf(outcome.differs)}; yours was not run, and calls with other values are not either.`,
            ]),
        `Do not repeat it, and do not try another way to the same end. Until a person or a check has settled it, treat it as open.`,
        ask,
      ];
    case "conflict":
      return [
        `${PHRASES.conflict}: ${tool} was already called for this with another ${listOf(outcome.differs)}.`,
        `The first call stands. Do not vary the values to get past this; if the first call was wrong, say so to a person.`,
      ];
    case "failed":
      return [
        outcome.final
          ? `${PHRASES.rejected}, and it did not happen: ${unended(telling.said ?? messageOf(outcome.error))}. With the same values ${tool} is not run again; only a call that corrects them is.`
          : `${PHRASES.failed} ${unended(telling.said ?? messageOf(outcome.error))}. You may call ${tool} again${notBefore(outcome.retryAt)}.`,
      ];
  }
}

/** The answer of the status tool. */
export function tellStatus(outcome: Outcome<unknown> | Absent): string {
  switch (outcome.status) {
    case "absent":
      return "Not known: there is no call with this reference. It has not been made, or its record is past its time.";
    case "done":
      return `Done at ${when(outcome.at)} (attempt ${outcome.attempt}). Do not repeat it.`;
    case "in_flight":
      return `${PHRASES.inFlight} since ${when(outcome.since)}. Do not repeat it; ask again after ${when(outcome.until)} at the latest.`;
    case "queued":
      return `${PHRASES.queued}, due ${when(outcome.dueAt)}. Do not repeat it.`;
    case "failed":
      return outcome.final
        ? `${PHRASES.rejected}; it did not happen: ${messageOf(outcome.error)}.`
        : `${PHRASES.failed} ${messageOf(outcome.error)}. It may be called again${notBefore(outcome.retryAt)}.`;
    case "unknown":
      return `${PHRASES.unknown} (attempt ${outcome.attempt}, ${when(outcome.since)}: ${outcome.why}). Do not repeat it: a person or a check has to settle it.`;
    case "conflict":
      return `Refused: the same intent was called before with another ${listOf(outcome.differs)}.`;
  }
}

/** A moment that has passed is not worth a word. */
function notBefore(retryAt: number | undefined): string {
  const ms = (retryAt ?? 0) - wallNow();
  if (retryAt === undefined || ms <= 0) return "";
  return `, but not before ${when(retryAt)} (in ${formatDuration(Math.ceil(ms / 1_000) * 1_000)})`;
}

function askFirst({ statusTool }: Telling, key: string): string {
  return statusTool === undefined
    ? "Go on with something else, or ask a person."
    : `Ask for its status with ${statusTool} {"reference":"${key}"}.`;
}

/** The full stop is ours. */
function unended(text: string): string {
  return text.replace(/[\s.]+$/, "");
}

function when(at: number): string {
  return new Date(at).toISOString();
}

function listOf(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "input") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
