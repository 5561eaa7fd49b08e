/** What a caller gets. */

import { shapeOf } from "./doubt-cause.ts";
import { formatDuration } from "./duration.ts";
import { needsResult } from "./entry-name.ts";
import { innerMessage, NevertwiceError } from "./errors.ts";
import { expired, type Instant, type LedgerRecord, leaseAlive } from "./record.ts";
import { toStoredError } from "./stored-error.ts";
import { isUnclassified, wayOut } from "./way-out.ts";

export type Outcome<R> =
  | {
      readonly status: "done";
      readonly key: string;
      readonly result: R;
      readonly replayed: boolean;
      readonly attempt: number;
      /** Epoch ms of the confirmation. */
      readonly at: number;
      /** Free fields that differ from the input that was sent. */
      readonly differs?: readonly string[];
      /** Set when the result was not kept, so that a replay has none (`result` is undefined then); says why. */
      readonly resultOmitted?: string;
    }
  | { readonly status: "in_flight"; readonly key: string; readonly since: number; readonly until: number }
  | {
      readonly status: "queued";
      readonly key: string;
      /** When it is due, or tried next. */
      readonly dueAt: number;
      /** After a failed try: when its tries end. */
      readonly givesUpAt?: number;
    }
  | {
      readonly status: "failed";
      readonly key: string;
      readonly error: unknown;
      readonly final: boolean;
      readonly retryAt?: number;
    }
  | {
      readonly status: "unknown";
      readonly key: string;
      readonly since: number;
      readonly attempt: number;
      readonly why: string;
      /** Guarded fields in which this call's input differs from the one that may have been sent. It was not run. */
      readonly differs?: readonly string[];
    }
  | { readonly status: "conflict"; readonly key: string; readonly differs: readonly string[] };

export type Absent = { readonly status: "absent"; readonly key: string };

/** How a record reads to somebody who does not hold it. `open` turns the stored result back into a value. */
export function outcomeOfRecord<R>(
  record: LedgerRecord,
  at: Instant,
  read: { result(record: LedgerRecord): { value: R; omitted?: string }; error(record: LedgerRecord): unknown },
): Outcome<R> | Absent {
  const key = record.key;
  if (expired(record, at.now)) return { status: "absent", key };
  switch (record.state) {
    case "confirmed": {
      const { value, omitted } = read.result(record);
      const done = { status: "done", key, result: value, replayed: true, attempt: record.attempt } as const;
      return {
        ...done,
        at: record.settledAt ?? record.updatedAt,
        ...(omitted !== undefined && { resultOmitted: omitted }),
      };
    }
    case "failed":
      return { status: "failed", key, error: read.error(record), final: record.final };
    case "pending":
      if (record.queued) return queuedUntil(record, record.dueAt ?? record.createdAt);
      return {
        status: "failed",
        key,
        error: read.error(record),
        final: false,
        retryAt: record.dueAt ?? record.updatedAt,
      };
    case "claimed": {
      if (leaseAlive(record, at)) return inFlight(record, at);
      // Nothing was sent and nobody holds it: like a pending record that is due, a worker or the next call takes it.
      const freeSince = leaseEnd(record, at);
      if (record.queued) return queuedUntil(record, freeSince);
      const error = read.error({ ...record, error: ABANDONED });
      return { status: "failed", key, error, final: false, retryAt: freeSince };
    }
    case "sent":
      return leaseAlive(record, at) ? inFlight(record, at) : doubtful(record, at);
    case "unknown":
      return doubtful(record, at);
  }
}

function queuedUntil({ key, terms }: LedgerRecord, dueAt: number) {
  const givesUpAt = terms?.givesUpAt;
  return { status: "queued", key, dueAt, ...(givesUpAt !== undefined && { givesUpAt }) } as const;
}

const ABANDONED = {
  name: "Error",
  message: "its holder stopped answering before anything was sent, and its lease has ended",
};

/** In wall time. A lease of another boot has no place on this clock: then it is the holder's last sign of life. */
function leaseEnd({ lease, updatedAt }: LedgerRecord, at: Instant): number {
  if (lease === null || lease.epoch !== at.epoch) return updatedAt;
  return Math.round(at.now - (at.steady - lease.until));
}

function inFlight(record: LedgerRecord, at: Instant) {
  // Leases live on the steady clock; people and callers read wall time.
  const since = record.lastSentAt ?? record.updatedAt;
  return { status: "in_flight", key: record.key, since, until: leaseEnd(record, at) } as const;
}

function doubtful(record: LedgerRecord, at: Instant) {
  return {
    status: "unknown",
    key: record.key,
    since: record.doubtSince ?? record.lastSentAt ?? at.now,
    attempt: record.attempt,
    why: record.why ?? "its holder stopped answering after the send mark: the lease ran out",
  } as const;
}

function otherInputNote(differs: readonly string[] = []): string {
  return differs.length === 0 ? "" : ` This call's input differs in: ${differs.join(", ")}; it was not run.`;
}

/**
 * The error that `action()` throws for an outcome that is not done. `heldForMs`: of a doubt that is held for a time; after it
 * the next call runs.
 */
export function errorForOutcome(
  outcome: Outcome<unknown> | Absent,
  action: string,
  cause?: unknown,
  heldForMs?: number,
): NevertwiceError {
  const details = { key: outcome.key, outcome, cause };
  const named = `${action} (${outcome.key})`;
  const said = innerMessage(cause);
  const inside = said === "" ? "" : ` Inside: ${said}${said.endsWith(".") ? "" : "."}`;
  switch (outcome.status) {
    case "in_flight": {
      const left = formatDuration(Math.max(1_000, Math.ceil((outcome.until - outcome.since) / 1_000) * 1_000));
      return new NevertwiceError(
        "IN_FLIGHT",
        `${named}: another attempt is under way (its lease spans ${left}). Do not run it again by other means: wait and call again, or raise \`wait\`.`,
        details,
      );
    }
    case "queued":
      return new NevertwiceError(
        "IN_FLIGHT",
        `${named}: queued, due at ${new Date(outcome.dueAt).toISOString()}. Nothing to do: a worker will run it; ask for its status().`,
        details,
      );
    case "failed":
      return new NevertwiceError(
        "FAILED",
        outcome.final
          ? `${named}: refused for good, and it did not happen.${inside} With the same input it is not run again; a call with a corrected input is. If the cause was elsewhere, fix it and bring it back with retry (nevertwice retry ${outcome.key} --reason "…"), or send a new version with resend().`
          : `${named}: it did not happen.${inside} Call again to try once more.`,
        details,
      );
    case "unknown":
      return new NevertwiceError(
        "OUTCOME_UNKNOWN",
        `${named}: attempt ${outcome.attempt} may or may not have happened (${withError(outcome.why, said === "" ? cause : undefined)}).${inside}${otherInputNote(outcome.differs)} ${heldForMs === undefined ? "It will not be run again by itself." : `No call runs it again before ${new Date(outcome.since + heldForMs).toISOString()}.`} Look at the provider, then settle it: resolve({ key }, { as: "done" | "not-done", by, reason }), or nevertwice resolve ${outcome.key} ${howToSettle(action)}.${isUnclassified(outcome.why) ? ` ${wayOut(action, "action")}` : ""}`,
        details,
      );
    case "conflict":
      return new NevertwiceError(
        "KEY_CONFLICT",
        `${named}: the same key was used before with another input (differs in: ${outcome.differs.join(", ")}). Nothing was run. If this is another intent, put what makes it one into \`key\`; if the field may vary, name it in \`free\`; if you mean to send again, use resend().`,
        details,
      );
    case "done":
      return new NevertwiceError(
        "RESULT_UNAVAILABLE",
        `${named}: it is done (${new Date(outcome.at).toISOString()}), but its result was not kept: ${outcome.resultOmitted ?? "there is none on record"}. Nothing was run, and there is nothing to repeat. Where it is enough to know that it is done, use attempt(): it answers "done" with resultOmitted. Where the result is needed, ask the provider for it.`,
        details,
      );
    case "absent":
      return new NevertwiceError("FAILED", `${named}: nothing is known about it.`, details);
  }
}

/** With the message of its error as lists of doubts have it: addresses, quoted values and numbers may be personal data. */
function withError(why: string, cause: unknown): string {
  const message = cause === undefined ? "" : shapeOf(toStoredError(cause).message);
  return /\p{L}/u.test(message) && !why.includes(message) ? `${why}: ${message}` : why;
}

function howToSettle(action: string): string {
  return needsResult(action)
    ? `--done --result '<json>' --reason "…" (--void instead of --result if it returns nothing; --not-done if it did not happen)`
    : `--done --reason "…" (--not-done if it did not happen; with --done, --result <json> is what repeats get)`;
}
