/**
 * How a record stands, in words. A holder that fell silent after the send mark is a doubt, and before it the record waits to
 * be taken, whatever its row still says.
 */
import { doubtBegan } from "../../core/doubt-cause.ts";
import { callable, entryOf, stepOf } from "../../core/entry-name.ts";
import { isNoResult, whyNotKept } from "../../core/kept-result.ts";
import { type Absent, type Outcome, outcomeOfRecord } from "../../core/outcome.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive } from "../../core/record.ts";
import { age, keepAge, plural, relative } from "../term/format.ts";
import type { Paint } from "../term/paint.ts";
import { oneLine } from "../term/text.ts";
import { kindOf } from "./kind-of-record.ts";
import { nextByItself, ofCommand } from "./next-by-itself.ts";

export interface Standing {
  /** What a caller would be told. */
  readonly status: (Outcome<unknown> | Absent)["status"];
  /** Claimed or sent, and its holder fell silent. */
  readonly lapsed: boolean;
  /** Past `keep`: it guards its key no longer, and the next sweep removes it. */
  readonly expired: boolean;
  readonly inDoubt: boolean;
  /** The state for tables; for a holder that fell silent "unknown*" after the send mark, "pending*" before it. */
  readonly label: string;
}

export function standingOf(record: LedgerRecord, at: Instant): Standing {
  const { status } = outcomeOfRecord(record, at, { result: () => ({ value: undefined }), error: () => record.error });
  const leased = record.state === "claimed" || record.state === "sent";
  const lapsed = leased && !leaseAlive(record, at);
  const silent = lapsed && record.state === "sent";
  const abandoned = lapsed && record.state === "claimed";
  return {
    status,
    lapsed,
    expired: expired(record, at.now),
    inDoubt: record.state === "unknown" || silent,
    label: silent ? "unknown*" : abandoned ? "pending*" : record.state,
  };
}

/** What a starred label means; null for labels without a star. */
export function markOf(label: string): string | null {
  if (label === "unknown*")
    return "unknown* its holder stopped answering after the send mark: in doubt, though no sweep has said so yet";
  if (label === "pending*")
    return "pending* its holder stopped answering before anything was sent: free for a worker or the next call";
  return null;
}

export function paintState(label: string, paint: Paint): (text: string) => string {
  if (label.startsWith("unknown") || label === "held") return paint.yellow;
  if (label === "confirmed") return paint.green;
  if (label === "failed") return paint.red;
  return label.startsWith("pending") ? paint.dim : paint.cyan;
}

/** The last column of `ls`: what there is to know about it, on one line. */
export function remarkOf(record: LedgerRecord, at: Instant): string {
  const { now } = at;
  const error = record.error === null ? "" : oneLine(record.error.message);
  if (expired(record, now)) return "past its keep: guards nothing any more";
  switch (record.state) {
    case "pending": {
      const due = record.dueAt ?? record.createdAt;
      const when = due <= now ? "due now" : `due ${relative(due, now)}`;
      const end = record.terms?.givesUpAt;
      const until = end === undefined ? "" : `, gives up ${relative(end, now)}`;
      return (record.queued ? when + until : "for the next call") + (error === "" ? "" : `, after: ${error}`);
    }
    case "claimed":
      return leaseAlive(record, at) ? `under way, ${leaseLeft(record, at)} left` : "holder silent, nothing sent";
    case "sent":
      return leaseAlive(record, at) ? `under way, ${leaseLeft(record, at)} left` : "holder silent after the send mark";
    case "confirmed":
      return record.expiresAt === null ? "kept forever" : `kept ${keepAge(record.expiresAt - now)} more`;
    case "failed":
      return `${record.final ? "refused: " : ""}${error}`;
    case "unknown": {
      const again = nextByItself(record, at) === null ? null : "run again by the next call";
      const until = heldUntil(record);
      const held = until === null ? null : until <= now ? "the next call is made" : `held ${age(until - now)} more`;
      const next = ofCommand(record, at) ?? again ?? held;
      const why = oneLine(record.why ?? "") + (error === "" ? "" : ` (${error})`);
      return next === null ? why : `${next}: ${why}`;
    }
  }
}

export function leaseLeftMs(record: LedgerRecord, at: Instant): number | null {
  if (record.lease === null) return null;
  return leaseAlive(record, at) ? Math.round(record.lease.until - at.steady) : 0;
}

function leaseLeft(record: LedgerRecord, at: Instant): string {
  return age(leaseLeftMs(record, at) ?? 0);
}

/** For a person who has to decide: what is known, and what follows by itself. */
export function plainWords(record: LedgerRecord, at: Instant): string {
  const runner = record.queued ? "a worker" : `the next call of ${oneLine(callable(record.action))}`;
  const alive = leaseAlive(record, at);
  const next = nextByItself(record, at);
  if (expired(record, at.now)) {
    return `${record.state === "confirmed" ? "done" : "failed"}, but past its keep: it guards its key no longer, and a new call would run it again`;
  }
  switch (record.state) {
    case "pending":
      return `waiting: it has surely not happened, and ${runner} will run it`;
    case "claimed":
      return alive
        ? "under way, and surely not sent yet"
        : `its holder fell silent before sending: it has surely not happened, and ${runner} takes it over`;
    case "sent":
      return alive ? "under way: it may have happened already, and its holder still answers" : doubtWords(record, at);
    case "confirmed":
      return resultWords(record);
    case "failed":
      if (next !== null) return `failed, after ${plural(record.tries, "try", "tries")}; ${next}`;
      if (isContainer(record)) return containerFailed(record, runner);
      return record.final
        ? "failed for good: it did not happen, and nothing tries it again by itself"
        : `failed: it did not happen, after ${plural(record.tries, "try", "tries")}; the next call may try again`;
    case "unknown":
      return doubtWords(record, at);
  }
}

const isContainer = ({ action }: LedgerRecord) => ["run", "job"].includes(entryOf(action).kind);

/** What it did before it failed has happened. */
function containerFailed({ action, tries, final }: LedgerRecord, runner: string): string {
  const done =
    entryOf(action).kind === "run" ? "steps that are confirmed have happened" : "what it did before has happened";
  const next = final ? "nothing tries it again by itself" : `${runner} with its id goes on after them`;
  return `failed${final ? " for good" : `, after ${plural(tries, "try", "tries")}`}: it has not ended, and ${done}; ${next}`;
}

function doubtWords(record: LedgerRecord, at: Instant): string {
  const next = nextByItself(record, at);
  if (next === null) return heldForWords(record, at) ?? DOUBT;
  const command = ofCommand(record, at);
  return command === null
    ? `not known to be done: its attempt was ended, or its runner died. ${capital(next)}`
    : `its runner died. ${capital(command)}`;
}

/** A call that is guarded until its answer has arrived: a doubt about it is held for as long as its record would be kept. */
function heldUntil(record: LedgerRecord): number | null {
  if (record.terms?.untilDelivered !== true || record.keepMs === null) return null;
  return doubtBegan(record) + record.keepMs;
}

function heldForWords(record: LedgerRecord, { now }: Instant): string | null {
  const until = heldUntil(record);
  if (until === null) return null;
  const next =
    until <= now ? "The next identical call" : `Identical calls are refused; ${relative(until, now)} the next one`;
  return `in doubt: it may or may not have happened. ${next} is made, unless somebody decides before`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const DOUBT =
  "in doubt: it may or may not have happened. Unless its action's doubt policy settles it, it stays so until somebody decides";

/** What follows once the record is pending again. */
export function whoRunsIt(record: LedgerRecord, suggest: (line: string) => string): string {
  if (record.queued) return "A worker will run it (it is queued and due now).";
  return kindOf(record, suggest)?.next ?? `The next call of ${oneLine(record.action)} with this input will run it.`;
}

function resultWords(record: LedgerRecord): string {
  const { kept, why } = keptResult(record);
  if (kept === "none") return "done: it happened, and it returned nothing";
  if (kept === "value") return "done: it happened, and a repeat gets the stored result";
  return `done: it happened, and a repeat runs nothing; its result was not kept: ${oneLine(why)}`;
}

/** Whether a repeat has a result to return, by the record alone: what is sealed counts as kept. */
function keptResult(record: LedgerRecord): { readonly kept: "value" | "none" | "not"; readonly why: string } {
  const { result } = record;
  if (result !== null && !("omitted" in result)) return { kept: "value", why: "" };
  const lost = result === null ? whyNotKept(record) : isNoResult(result) ? null : result.omitted;
  return lost === null ? { kept: "none", why: "" } : { kept: "not", why: lost };
}

/** What follows once the record is settled as done. */
export function whoGetsIt(record: LedgerRecord): string {
  const called = oneLine(callable(record.action));
  const { kept, why } = keptResult(record);
  const what = kept === "value" ? "the stored result" : "undefined: it returns nothing";
  switch (entryOf(record.action).kind) {
    case "sequence":
      return `${called} goes on with the next step of this subject`;
    case "job":
      return `a repeat of ${called} runs nothing`;
    case "step":
      if (kept === "not") return `${called} ends at this step with RESULT_UNAVAILABLE, since ${oneLine(why)}`;
      return `the next call of ${called} goes on after this step, with ${what}`;
    default:
      if (kept !== "not") return `a repeat of ${called} gets ${what}`;
      return `a repeat of ${called} runs nothing and throws RESULT_UNAVAILABLE, since its result was not kept (${oneLine(why)}); attempt() answers done`;
  }
}

/** "send_followup", "send_followup v2" for a deliberate resend, or "step:order › charge". */
export function actionLabel(record: LedgerRecord): string {
  const name = actionAndStep({ action: record.action, step: stepOf(record) });
  return record.version === 1 ? name : `${name} v${record.version}`;
}

export function actionAndStep({ action, step }: { readonly action: string; readonly step: string | null }): string {
  return oneLine(step === null ? action : `${action} › ${step}`);
}
