/**
 * What a model is told. Plain sentences: a model that is told "error" tries again, one that is told what happened does not. It
 * knows its tools and their arguments, and nothing of ledgers, records, attempts or keys.
 */
import { isDamagedRecord } from "../core/damaged-record.ts";
import { formatDuration } from "../core/duration.ts";
import { messageOf } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { namedError } from "../core/returned-error.ts";
import { wallNow } from "../engine/real-timers.ts";

export interface Telling {
  /** The tool's name, as the model knows it. */
  readonly tool: string;
  /** The tool that answers questions about earlier calls, if the model has one. */
  readonly statusTool?: string | undefined;
  /** The tool by which a model asks for one more run, if it has one. */
  readonly onceMoreTool?: string | undefined;
  /** Of a tool whose doubts are held for a time: after it, the next call runs. */
  readonly heldForMs?: number | undefined;
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
  queued: "Scheduled",
  unknown: "It may have happened",
  conflict: "Refused, and nothing was done",
  rejected: "Refused for good",
  failed: "It did not happen:",
  unreachable: "it cannot be checked now",
} as const;

type Done = Extract<Outcome<unknown>, { readonly status: "done" }>;

/** Stands before the result of a repeat. */
export function tellReplay(outcome: Done, { tool, onceMoreTool }: Telling): string {
  const differs = outcome.differs ?? [];
  const reworded =
    differs.length === 0
      ? ""
      : ` Your ${listOf(differs)} differs from what was sent then; what was sent first stands, and the new text was not sent.`;
  return `${PHRASES.done} ${when(outcome.at)}; this is that result. ${tool} was not run again.${reworded}${askOnceMore(outcome, onceMoreTool)}`;
}

function askOnceMore({ key }: Done, tool: string | undefined): string {
  if (tool === undefined) return "";
  return ` Only if it is really meant to happen once more, ask for it with ${tool} {"reference":"${key}","reason":"…"}: a person decides.`;
}

/**
 * Before the error that a first call was answered with. An error does not prove that nothing was done, so it is not run
 * again; nor is it done, so it is not reported as done.
 */
export function tellErrorReplay(outcome: Done, { tool }: Telling): string {
  return `${PHRASES.unknown}: ${tool} was called for this at ${when(outcome.at)} and answered with the error that follows. It was not run again. Do not repeat it unchanged: correct what the error names, or tell the user. Reference: ${outcome.key}`;
}

/** Whether a text stands before the answer of an earlier call. */
export function isReplayNote(text: string): boolean {
  return text.startsWith(`${PHRASES.done} `) || text.startsWith(`${PHRASES.unknown}: `);
}

/** The answer of a tool that records: nothing has been done yet, and nothing is left to do. */
export function tellAccepted(key: string, telling: Telling): string {
  const { tool } = telling;
  return `${PHRASES.accepted} ${tool} will be carried out in the background. There is nothing to repeat, and nothing to wait for. ${askFirst(telling, key)} Reference: ${key}`;
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
    return `${PHRASES.unknown}: ${tool} was started, and what became of it could not be saved. Do not repeat it, and do not try another way to the same end. Tell the user that it is open.`;
  if (isDamagedRecord(error))
    return `${PHRASES.unknown} by an earlier call: what was saved of that call cannot be read. ${tool} was not run now. Do not repeat it, and do not try another way to the same end. Tell the user that it is open.`;
  return `${tool} was not run: ${PHRASES.unreachable} whether this was done before. Nothing was sent. Tell the user; do not try another way.`;
}

/** The same for a tool that records: whether the write arrived is not known, and a repeat of it harms nothing. */
export function tellNotRecorded(tool: string): string {
  return `It is not known whether ${tool} is scheduled: ${PHRASES.unreachable}. Nothing was sent by this call. Tell the user; do not try another way.`;
}

/** And for the status tool. */
export function tellStatusUnavailable(): string {
  return `No answer: ${PHRASES.unreachable}. This says nothing about the call. Do not repeat the call; tell the user that it is open.`;
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
        `${PHRASES.queued}: ${tool} will be carried out in the background, at ${when(outcome.dueAt)} or later.`,
        `There is nothing to repeat.`,
        ask,
      ];
    case "unknown":
      return [
        ...(telling.said === undefined ? [] : [`${tool} failed: ${unended(telling.said)}.`]),
        `${PHRASES.unknown} all the same (${when(outcome.since)}: ${plain(outcome.why)}), and ${telling.heldForMs === undefined ? "it will not be run again by itself" : `no call for it is run before ${when(outcome.since + telling.heldForMs)}`}.`,
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
      return "Not known: there is no call with this reference. It was not made, or it was too long ago.";
    case "done":
      if (isErrorAnswer(outcome.result))
        return `${PHRASES.unknown}: it answered with an error at ${when(outcome.at)}. Do not repeat it unchanged: correct what the error named, or tell the user.`;
      return `Done at ${when(outcome.at)}. Do not repeat it.`;
    case "in_flight":
      return `${PHRASES.inFlight} since ${when(outcome.since)}. Do not repeat it; ask again after ${when(outcome.until)} at the latest.`;
    case "queued":
      return `${PHRASES.queued}, for ${when(outcome.dueAt)} or later. Do not repeat it.`;
    case "failed":
      return outcome.final
        ? `${PHRASES.rejected}; it did not happen: ${messageOf(outcome.error)}.`
        : `${PHRASES.failed} ${messageOf(outcome.error)}. It may be called again${notBefore(outcome.retryAt)}.`;
    case "unknown":
      return `${PHRASES.unknown} (${when(outcome.since)}: ${plain(outcome.why)}). Do not repeat it: it is open until a person or a check has settled it.`;
    case "conflict":
      return `Refused: the same call was made before with another ${listOf(outcome.differs)}.`;
  }
}

/** A moment that has passed is not worth a word. */
function notBefore(retryAt: number | undefined): string {
  const ms = (retryAt ?? 0) - wallNow();
  if (retryAt === undefined || ms <= 0) return "";
  return `, but not before ${when(retryAt)} (in ${formatDuration(Math.ceil(ms / 1_000) * 1_000)})`;
}

/** A result that names an error, by shape: it was answered, and that is all that is known. */
export function isErrorAnswer(result: unknown): boolean {
  return namedError(result) !== null;
}

/** What operators read of the engine itself says nothing to a model. */
const OF_THE_ENGINE = /classif|lease|ledger|\brecord|attempt|heartbeat|nevertwice|options/i;

function plain(why: string): string {
  return OF_THE_ENGINE.test(why) ? "it broke off, or failed in a way that leaves open how far it got" : why;
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
