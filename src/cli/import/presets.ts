/** The tables, files and keys of known patterns, and what their rows say. Each is one entry; what they share is a function. */
import { entryAction } from "../../core/entry-name.ts";
import { WEBHOOK_ACTION, webhookParts } from "../../core/key/webhook.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import type { PresetRow } from "./preset-row.ts";
import type { Reading } from "./reading.ts";
import { markerReading } from "./redis-row.ts";
import type { End } from "./status.ts";

/** The flags of the command, as far as presets use them. */
export interface PresetFlags {
  /** --key */
  readonly key: string | undefined;
  /** --action */
  readonly action: string | undefined;
  /** --action-column */
  readonly actionColumn: string | undefined;
  /** --status-column */
  readonly status: string | undefined;
  /** --time-column */
  readonly time: string | undefined;
  /** --sequence, --source */
  readonly sequence: string | undefined;
  readonly source: string | undefined;
  readonly steps: readonly string[];
}

export interface Preset {
  readonly name: string;
  readonly about: string;
  /** The table's name where the user gives none; null: it is not a table. */
  readonly table: string | null;
  readonly order: readonly string[];
  /** Every column that the pattern has: others are looked at only to see that none is a status. */
  readonly columns: readonly string[];
  /** Columns that a row cannot do without, to tell a wrong file at once. */
  readonly needs: readonly string[];
  /** Words that mean something else here than elsewhere. */
  readonly words: readonly (readonly [word: string, as: End])[];
  readonly outbox: boolean;
  read(row: PresetRow, flags: PresetFlags): readonly Reading[];
}

export const KEY_COLUMNS: readonly string[] = ["idempotency_key", "key", "event_id", "subscriber_id"];

/** The key and the status may have another name. */
export function renamed(column: string, key: string | undefined, status: string | undefined): string {
  if (column === "status") return status ?? column;
  return (KEY_COLUMNS.includes(column) ? key : undefined) ?? column;
}

type Named = Pick<Reading, "action" | "parts">;

function byColumns(row: PresetRow, flags: PresetFlags, key: string, action: string): Named {
  const name = flags.action ?? row.text(flags.actionColumn ?? action);
  return { action: name, parts: [row.text(flags.key ?? key)] };
}

function actionNamed(flags: PresetFlags, preset: string): string {
  if (flags.action !== undefined) return flags.action;
  throw new UsageError(`--as ${preset} needs --action <name>: its rows do not say which action they are.`);
}

function errorIn(row: PresetRow, ...columns: readonly string[]): string {
  const found = columns.map((column) => row.value(column)).find((value) => typeof value === "string");
  return typeof found === "string" ? found : "it failed before it was imported";
}

const CLAIMED = "imported while it was claimed: no result was recorded, and it may have happened";

/** `idempotency_key` is in the input beside the payload: with it the provider is asked under the key that it knows. */
function outboxReading(row: PresetRow, flags: PresetFlags, columns: { action: string; error?: string }): Reading {
  const key = flags.key ?? "idempotency_key";
  const named = byColumns(row, flags, "idempotency_key", columns.action);
  const end = row.status(flags.status ?? "status");
  const at = flags.time === undefined ? row.firstTime("completed_at", "created_at") : row.time(flags.time);
  const base = { ...named, ...end, at };
  if (end.as === "done") {
    const payload = row.json("payload");
    const input = typeof payload === "object" && payload !== null && !Array.isArray(payload) ? payload : undefined;
    const known = input === undefined ? {} : { input: { ...input, [key]: named.parts[0] } };
    return { ...base, ...known, result: row.json("result") ?? undefined };
  }
  const payload = row.payload("payload");
  const inside = payload[key];
  if (inside !== undefined && inside !== named.parts[0])
    throw new ProblemError(
      `its payload has another ${oneLine(key)} (${oneLine(JSON.stringify(inside))}) than the row. Which one the provider knows is not certain.`,
    );
  const input = { ...payload, [key]: named.parts[0] };
  if (end.as === "failed") return { ...base, input, error: errorIn(row, columns.error ?? "last_error", "error") };
  if (end.as !== "queued") return { ...base, input, why: CLAIMED };
  const ended = ["completed_at", "sent_at", "processed_at", "delivered_at"].find(
    (column) => row.value(column) !== null,
  );
  if (ended !== undefined)
    return {
      ...base,
      as: "doubt",
      input,
      why: `imported as ${end.word} with a time in ${ended}: the row contradicts itself, and it may have happened`,
    };
  const attempts = Number(row.value("attempts") ?? 0);
  if (!Number.isSafeInteger(attempts) || attempts < 0)
    throw new ProblemError(
      `the attempts ${oneLine(JSON.stringify(row.value("attempts")))} is not a count. Whether it was tried is not certain.`,
    );
  const tried = attempts > 0;
  return {
    ...base,
    input,
    at: null,
    dueAt: row.time("next_attempt_at"),
    ...(tried && { note: TRIED }),
  };
}

const TRIED =
  "Pending rows that had been tried before (attempts above 0): {count}. They are queued too: a worker sends them with the same idempotency_key in the input. Where your provider takes no such key, import them as in doubt: --status pending=unknown";

export const PRESETS: readonly Preset[] = [
  {
    name: "s0-dedupe",
    about: "a dedupe table at the boundary: agent_action_dedupe, with or without state",
    table: "agent_action_dedupe",
    order: ["created_at"],
    columns: ["idempotency_key", "action_type", "created_at", "result", "state", "provider_message_id"],
    needs: ["idempotency_key"],
    // `sent` is the step before `confirmed`: handed over, and no answer recorded.
    words: [
      ["claimed", "doubt"],
      ["sent", "doubt"],
    ],
    outbox: false,
    read(row, flags) {
      const base = {
        ...byColumns(row, flags, "idempotency_key", "action_type"),
        at: row.time(flags.time ?? "created_at"),
      };
      const column = flags.status ?? "state";
      const result = row.json("result") ?? messageId(row.value("provider_message_id"));
      if (!row.has(column)) {
        if (!row.has("result"))
          throw new UsageError(
            "there is no column result and no column state: nothing says whether the rows were done. Export them with one of the two.",
          );
        if (row.json("result") === null) return [{ ...base, as: "doubt", word: "", why: CLAIMED }];
        return [{ ...base, as: "done", word: "", result }];
      }
      const end = row.status(column);
      // Handed over, and the provider answered with its own id: that is evidence.
      const isSent = end.word === "sent" && end.as === "doubt" && messageId(row.value("provider_message_id")) !== null;
      if (isSent) return [{ ...base, as: "done", word: end.word, result }];
      if (end.as === "done") return [{ ...base, ...end, result: result ?? undefined }];
      return [{ ...base, ...end, why: CLAIMED, error: errorIn(row, "error") }];
    },
  },
  {
    name: "s0-outbox",
    about: "a transactional outbox: outbox, with action_type, payload, attempts and next_attempt_at",
    table: "outbox",
    order: ["id"],
    columns: "id idempotency_key action_type payload status attempts next_attempt_at completed_at created_at".split(
      " ",
    ),
    needs: ["idempotency_key", "payload", "status"],
    words: [["pending", "queued"]],
    outbox: true,
    read: (row, flags) => [outboxReading(row, flags, { action: "action_type" })],
  },
  {
    name: "s1-actions",
    about: "idempotency keys on insert: agent_actions, with status pending, completed or failed",
    table: "agent_actions",
    order: ["created_at"],
    columns: "id idempotency_key action_type status result created_at".split(" "),
    needs: ["idempotency_key", "status"],
    words: [["pending", "doubt"]],
    outbox: false,
    read: (row, flags) => [actionReading(row, flags, ["created_at"])],
  },
  {
    name: "s1-events",
    about: "processed webhook events: stripe_events, by event_id",
    table: "stripe_events",
    order: ["processed_at"],
    columns: "event_id event_type processed_at payload".split(" "),
    needs: ["event_id"],
    words: [],
    outbox: false,
    read(row, flags) {
      const source = flags.source ?? "stripe";
      const parts = webhookParts(source, row.text(flags.key ?? "event_id"));
      // Who handles an event returns nothing to its sender.
      const at = row.time(flags.time ?? "processed_at");
      const base = { action: flags.action ?? WEBHOOK_ACTION, parts, at, isVoid: true };
      if (flags.status !== undefined) return [{ ...base, ...row.status(flags.status), why: CLAIMED }];
      if (row.has("processed_at") && row.value("processed_at") === null)
        return [{ ...base, as: "doubt", word: "", why: "imported without processed_at: it may have been handled" }];
      return [{ ...base, as: "done", word: "" }];
    },
  },
  {
    name: "s1-drip",
    about: "a drip sequence as columns: subscriber_automation, with <step>_sent and <step>_sent_at",
    table: "subscriber_automation",
    order: ["subscriber_id"],
    columns: ["id", "subscriber_id"],
    needs: ["subscriber_id"],
    words: [],
    outbox: false,
    read: dripReadings,
  },
  {
    name: "s1-runs",
    about: "retry-safe action logs: agent_runs, with status pending, completed or failed",
    table: "agent_runs",
    order: ["started_at"],
    columns: "run_id agent_name action_type idempotency_key status result error_detail started_at completed_at".split(
      " ",
    ),
    needs: ["idempotency_key", "status"],
    words: [["pending", "doubt"]],
    outbox: false,
    read: (row, flags) => [{ ...actionReading(row, flags, ["completed_at", "started_at"]), ...agentOf(row) }],
  },
  {
    name: "s2-outbox",
    about: "an outbox by operation: outbox, with operation, payload, last_error and created_at",
    table: "outbox",
    order: ["created_at"],
    columns: "idempotency_key operation payload status attempts last_error created_at completed_at".split(" "),
    needs: ["idempotency_key", "payload", "status"],
    words: [["pending", "queued"]],
    outbox: true,
    read: (row, flags) => [outboxReading(row, flags, { action: "operation", error: "last_error" })],
  },
  {
    name: "s4-ledger",
    about: "an action ledger of JSON lines, with key, ts and status",
    table: null,
    order: [],
    columns: ["key", "ts", "status", "started", "error"],
    needs: ["key"],
    words: [],
    outbox: false,
    read(row, flags) {
      const column = flags.status ?? "status";
      const base = {
        action: actionNamed(flags, "s4-ledger"),
        parts: [row.text(flags.key ?? "key")],
        at: flags.time === undefined ? row.firstTime("ts", "started") : row.time(flags.time),
      };
      const result = row.rest("key", "ts", "started", "error", column, ...(flags.key ? [flags.key] : []));
      // The first form of the ledger has a line only for what is done.
      if (!row.has(column)) return [{ ...base, as: "done", word: "", result }];
      const end = row.status(column);
      const why = "imported while it was in_progress: its run did not record an end, and it may have happened";
      return [{ ...base, ...end, why, error: errorIn(row, "error"), ...(end.as === "done" && { result }) }];
    },
  },
  {
    name: "redis-set-nx",
    about:
      "keys set with SET NX: email:lock:<key> and email:result:<key>, or idem:<key> with :inflight; with their TTL",
    table: null,
    order: [],
    columns: ["key", "redis_key", "kind", "value", "ttl_ms", "read_at"],
    needs: ["key", "kind", "value"],
    words: [],
    outbox: false,
    read: (row, flags) => [{ action: actionNamed(flags, "redis-set-nx"), ...markerReading(row) }],
  },
];

/** A blank id is none. */
function messageId(value: unknown): { readonly message_id: unknown } | null {
  return value === null || String(value).trim() === "" ? null : { message_id: value };
}

function actionReading(row: PresetRow, flags: PresetFlags, times: readonly string[]): Reading {
  const named = byColumns(row, flags, "idempotency_key", "action_type");
  const at = flags.time === undefined ? row.firstTime(...times) : row.time(flags.time);
  const end = row.status(flags.status ?? "status");
  if (end.as === "done") return { ...named, ...end, at, result: row.json("result") ?? undefined };
  return { ...named, ...end, at, why: CLAIMED, error: errorIn(row, "error_detail", "error") };
}

function agentOf(row: PresetRow): Pick<Reading, "agent"> {
  return row.value("agent_name") === null ? {} : { agent: row.text("agent_name") };
}

const SENT = "_sent";

/** One reading for each step. A step that was not sent has no record: start() of the sequence queues it. */
function dripReadings(row: PresetRow, flags: PresetFlags): readonly Reading[] {
  const { sequence } = flags;
  if (sequence === undefined)
    throw new UsageError("--as s1-drip needs --sequence <name>: the name that your program gives to nt.sequence().");
  const subject = row.text(flags.key ?? "subscriber_id");
  const steps = stepsOf(row, flags);
  const sent = steps.map(({ column }) => row.status(column));
  const last = sent.findLastIndex(({ as }) => as !== "not-done");
  return steps.map(({ step, column }, i) => {
    const end = sent[i] as (typeof sent)[number];
    const at = row.has(`${column}_at`) ? row.time(`${column}_at`) : null;
    const base = { action: entryAction("sequence", sequence), parts: [subject, step], word: end.word, at };
    if (end.as === "not-done" && at !== null)
      return {
        ...base,
        as: "doubt",
        why: `imported with ${column} false and a time in ${column}_at: it may have been sent`,
      };
    const note = i < last ? SKIPPED : AHEAD;
    return end.as === "not-done" ? { ...base, as: "not-done", note } : { ...base, as: end.as, why: CLAIMED };
  });
}

const AHEAD =
  "Steps that are still ahead: {count}. Call sequence.start(subscriber, data) for each subscriber: steps that are done are not taken again.";
const SKIPPED =
  "Steps that were not sent and come before one that was: {count}. A sequence goes forward only, so they are not taken.";

function stepsOf(row: PresetRow, { steps }: PresetFlags): { step: string; column: string }[] {
  if (steps.length > 0)
    return steps.map((one) => {
      const [column = "", step] = one.includes("=") ? one.split("=", 2) : [`${one}${SENT}`, one];
      if (!row.has(column)) throw new UsageError(`--steps ${oneLine(one)}: there is no column ${oneLine(column)}.`);
      return { step: step as string, column };
    });
  const columns = row.names.filter((name) => name.endsWith(SENT) && name.length > SENT.length);
  if (columns.length === 0)
    throw new UsageError("there is no column that ends with _sent. Name the steps: --steps welcome_sent=welcome,…");
  return columns.map((column) => ({ step: column.slice(0, -SENT.length), column }));
}

/** Columns of one row that its pattern knows beside the fixed ones. */
export function isPresetColumn({ name, columns }: Preset, column: string, { steps }: PresetFlags): boolean {
  if (columns.includes(column)) return true;
  if (name !== "s1-drip") return name === "s4-ledger";
  if (steps.length === 0) return /_sent(?:_at)?$/.test(column);
  return steps.some((one) => {
    const own = one.includes("=") ? one.split("=", 1)[0] : `${one}${SENT}`;
    return column === own || column === `${own}_at`;
  });
}
