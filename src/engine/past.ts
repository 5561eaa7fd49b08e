/** For `nevertwice import`: the records of what an action's program did before it had a ledger. */

import { type Keep, keepOfWindows, windowsIn } from "../core/keep.ts";
import { RESULT_NOT_GIVEN } from "../core/kept-result.ts";
import { fingerprintInPart } from "../core/key/fingerprint.ts";
import type { NamedKey } from "../core/key/formerly.ts";
import { keyText } from "../core/key/key.ts";
import { keyParts } from "../core/key/parts.ts";
import { type NextCall, nextCallOf, type PastEnd, recordPast } from "../core/past.ts";
import type { LedgerRecord } from "../core/record.ts";
import { storableText } from "../core/storable-text.ts";
import type { Stored } from "../core/store.ts";
import type { Call, CallOptions } from "./call.ts";
import type { Definition } from "./definition.ts";
import type { Engine } from "./engine.ts";
import { inputDoesNotFit } from "./enqueued-input.ts";
import { intentOf, rekeyed } from "./make-call.ts";
import { DEFAULT_LIMITS } from "./payloads.ts";
import type { StandardSchema } from "./standard-schema.ts";

/** By a registered symbol: the command and the module with the actions may have a copy of the package each. */
export const PAST = Symbol.for("nevertwice.past");

export interface PastAttempt {
  /** queued: recorded and never begun, for a worker to run. */
  readonly as: "done" | "failed" | "doubt" | "queued";
  /** Epoch ms; null: not known. */
  readonly at: number | null;
  readonly result?: unknown;
  /** done without a result: what it did returns nothing, and a repeat gets undefined. */
  readonly isVoid?: boolean;
  readonly error?: string;
  /** Why it is in doubt. */
  readonly why?: string;
  /** queued: not before this (epoch ms); null: now. */
  readonly dueAt?: number | null;
  /** It was in an outbox: what is brought back later is a worker's to run. */
  readonly queued?: boolean;
  /** How long the record is kept; null: forever. */
  readonly keepMs: number | null;
}

/** An intent by its input: derived by the action itself, as for a call. */
export interface PastIntent {
  readonly key: string;
  readonly parts: readonly unknown[];
  /** Equal for two inputs that are repeats of each other. */
  readonly identity: string;
  /** How long its record is kept where this is asked for. It is kept while a window in its key can be asked for, whatever is given. */
  keepOf(keepMs: number | null): Keep;
  /** The record to write; null: what is stored stays as it is. */
  recordOf(stored: Stored | null, past: PastAttempt): LedgerRecord | null;
  nextCall(stored: Stored | null): NextCall;
  /** The same intent for the record under another of its keys, which an alias led to. */
  under(place: NamedKey, record: LedgerRecord | null): PastIntent;
}

export interface PastAccess {
  readonly schema: StandardSchema | undefined;
  /** The names of the fields that are the key; null: it is a function. */
  readonly keyFields: readonly string[] | null;
  intentOf(input: unknown, options: CallOptions): Promise<PastIntent>;
  /**
   * By the parts of its key, where that is all that is known of it: no call with these parts is a conflict. `stored`: what a
   * worker would be given as its input; undefined: nothing.
   */
  intentOfParts(parts: readonly unknown[], stored: unknown, options: CallOptions): Promise<PastIntent>;
}

export function pastAccess(
  definition: Definition,
  engine: Engine,
  makeWith: (definition: Definition) => (input: unknown, options: CallOptions) => Call | Promise<Call>,
): PastAccess {
  const make = makeWith(definition);
  let given: readonly unknown[] = [];
  // As nt.once() has it: the parts are all there is, and the input is undefined.
  const byParts: Definition = { ...definition, schema: undefined, key: () => given };
  const makeByParts = makeWith(byParts);
  const { key } = definition;
  return {
    schema: definition.schema,
    keyFields: typeof key === "object" ? (key as readonly string[]) : null,
    // Whoever imports did not do it: only an agent that is named for it is kept.
    intentOf: async (input, options) =>
      pastIntent({ ...(await make(input, options)), agent: options.agent ?? null }, engine),
    intentOfParts: async (parts, stored, options) => {
      given = parts;
      // Without a schema it is made at once, before another call changes the parts.
      const call = makeByParts(undefined, options) as Call;
      return pastIntent({ ...call, agent: options.agent ?? null, given: stored }, engine);
    },
  };
}

function pastIntent(call: Call, engine: Engine): PastIntent {
  const { definition, key, tenant, version, scope } = call;
  const { ledger, payloads, providerIds } = engine.services;
  const parts = keyParts(definition.key, call.input, definition.free, definition.name);
  const windows = windowsIn(
    keyText({ tenant, action: definition.name, version, scope, parts, plain: typeof definition.key !== "function" }),
  );
  const keepOf = (keepMs: number | null): Keep => {
    const { guardUntil } = keepOfWindows(keepMs, false, windows);
    return { ...keepOfWindows(keepMs, true, windows), guardUntil };
  };
  const endOf = ({ as, result, isVoid, error, why, dueAt }: PastAttempt, now: number): PastEnd => {
    if (as === "queued") return { as, dueAt: dueAt ?? now };
    if (as === "failed") return { as, error: { name: "Imported", message: storableText(error ?? "") } };
    if (as === "doubt") return { as, why: why ?? "imported while it was under way: it may have happened" };
    return {
      as,
      providerId: providerIds.of(definition, result),
      result: (fence) =>
        result === undefined && isVoid !== true
          ? RESULT_NOT_GIVEN.import
          : payloads.store(result, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence }),
    };
  };
  return {
    key,
    parts,
    keepOf,
    identity: `${key} ${call.print.guarded}`,
    recordOf: (stored, past) => {
      const now = ledger.instant();
      const { keepMs, guardUntil } = keepOf(past.keepMs);
      // A row need not have a column for every field of the input: what it has none for is not known.
      const fingerprint = fingerprintInPart(call.print);
      const intent = { ...intentOf(call, stored?.record ?? null, payloads), fingerprint, keepMs, guardUntil };
      if (past.as === "queued" && intent.input !== null && "omitted" in intent.input)
        throw inputDoesNotFit(call, intent.input.omitted);
      const { at, queued = false } = past;
      return recordPast(stored?.record ?? null, { intent, end: endOf(past, now.now), at, queued }, now);
    },
    under: (place, record) => pastIntent(rekeyed(call, place, record), engine),
    nextCall: (stored) => nextCallOf(stored?.record ?? null, call.print, definition.free, ledger.instant()),
  };
}
