/** One caller's wish, with everything that follows from its input: key, fingerprint, policy. */
import { checkAgent } from "../core/agent-name.ts";
import { callTimeSuspicions, partsDiffer } from "../core/call-time.ts";
import { type Duration, durationMs, formatDuration } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { type DigestKey, type InputPrint, printInput, toFingerprint } from "../core/fingerprint.ts";
import { requireGiven } from "../core/given-option.ts";
import { type Keep, keepOfWindows, leastKeepMs, windowsIn } from "../core/keep.ts";
import { keyOfText, keyText } from "../core/key.ts";
import { keyParts } from "../core/key-parts.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Intent, LedgerEvent } from "../core/transition.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";

export interface CallOptions {
  /** A run, session or thread id: the same intent in another scope is another intent. */
  readonly scope?: string;
  /** 1 unless a deliberate resend raised it. */
  readonly version?: number;
  readonly tenant?: string;
  /** Who acts: kept on the record and told with events. Not part of the key. nevertwice({ agent }) unless given. */
  readonly agent?: string;
  readonly wait?: Duration;
  /** The caller's own open transaction: claim, effect and confirm commit with it. */
  readonly tx?: unknown;
}

export interface Call {
  readonly definition: Definition;
  readonly key: string;
  readonly tenant: string;
  readonly version: number;
  readonly scope: string | null;
  /** Who acts; null: nobody was named. */
  readonly agent: string | null;
  /** Parsed. */
  readonly input: unknown;
  /** As given, before parsing: what the ledger keeps. */
  readonly given: unknown;
  readonly print: InputPrint;
  /** How long its record is kept, with what the windows in its key need. */
  readonly keep: Keep;
  readonly waitMs: number;
  /** A deliberate resend says who and why. */
  readonly resend?: { readonly by: string; readonly reason: string };
  /** The attempt is made outside of this process. */
  readonly outside?: Outside;
}

/** Who makes an attempt outside of this process, and gets the claim instead of its being run here. */
export interface Outside {
  readonly holder: string;
  /** The same holder may have asked before without hearing the answer: its own claim is handed to it again. */
  readonly mayAskAgain: boolean;
  /** Nobody waits for the answer any more: nothing is claimed from then on. */
  gone(): boolean;
  claimed(attempt: { readonly stored: Stored; readonly input: unknown; readonly again: boolean }): void;
}

export interface CallDefaults {
  /** Of calls that name none. */
  readonly tenant: string;
  /** The tenant whose records alone may be touched; undefined: everybody's. */
  readonly confinedTo: string | undefined;
  readonly secret: string | Uint8Array | undefined;
  /** Of calls that name none. */
  readonly agent?: string | null;
  /** With `encrypt`: what the digests of inputs are made with. */
  readonly digestKeys?: readonly DigestKey[];
}

const OPTIONS = new Set(["scope", "version", "tenant", "agent", "wait", "tx"]);

const NO_SCOPE = "The variable it comes from may not be set, and without a scope the call would be another intent.";
const NO_TX =
  "The variable it comes from may not be set, and without its transaction the call would be committed at once.";

/** What a caller gave must have a value: left out by mistake, each of these would make it another call. */
export function requireGivenIn(options: Pick<CallOptions, "tenant" | "scope" | "tx">, where: string): void {
  requireGiven(where, options, ["tenant"]);
  requireGiven(where, options, ["scope"], NO_SCOPE);
  requireGiven(where, options, ["tx"], NO_TX);
}

export function makeCall(
  definition: Definition,
  given: unknown,
  input: unknown,
  options: CallOptions,
  defaults: CallDefaults,
): Call {
  for (const option in options) {
    if (!OPTIONS.has(option)) {
      throw configError(
        `${definition.name}: there is no call option ${JSON.stringify(option)}. The options are: ${[...OPTIONS].join(", ")}.`,
      );
    }
  }
  const tenant = options.tenant ?? defaults.tenant;
  const version = options.version ?? 1;
  const scope = options.scope ?? null;
  if (options.agent !== undefined) checkAgent(options.agent, definition.name);
  const parts = keyParts(definition.key, input, definition.free, definition.name);
  const plain = typeof definition.key !== "function";
  const text = keyText({ tenant, action: definition.name, version, scope, parts, plain });
  const key = keyOfText(text, defaults.secret);
  return {
    definition,
    key,
    tenant,
    version,
    scope,
    agent: options.agent ?? defaults.agent ?? null,
    input,
    given,
    print: printOf(input, definition.free, key, defaults),
    keep: keepOfWindows(definition.policy.keepMs, definition.policy.keepByHand, windowsIn(text)),
    waitMs:
      options.wait === undefined ? definition.policy.waitMs : durationMs(options.wait, `${definition.name}: wait`),
  };
}

/** The digests of an input, as the record of this key has them. */
export function printOf(input: unknown, free: readonly string[], intent: string, defaults: CallDefaults): InputPrint {
  const { secret, digestKeys } = defaults;
  return printInput(input, free, secret, digestKeys === undefined ? undefined : { keys: digestKeys, intent });
}

// The key function is run twice for the first few inputs only: enough to catch a random part, too little to cost.
const CHECKED_CALLS = 3;
const checked = new WeakMap<Definition, number>();

/** K5: says so when a part of the key looks made at call time, which would defeat the whole thing. */
export function warnOfCallTimeParts(
  definition: Definition,
  input: unknown,
  clock: { instant(): Instant },
  warnings: Warnings,
): void {
  const seen = checked.get(definition) ?? 0;
  if (seen >= CHECKED_CALLS || warnings.said("CALL_TIME_KEY", definition.name)) return;
  checked.set(definition, seen + 1);
  const parts = keyParts(definition.key, input, definition.free, definition.name);
  const again =
    typeof definition.key === "function" ? keyParts(definition.key, input, definition.free, definition.name) : parts;
  const fix =
    "Derive every part from the intent (ids, a template, day(at)), never from the call; otherwise each retry gets a new key and runs again.";
  if (partsDiffer(parts, again)) {
    warnings.warn(
      "CALL_TIME_KEY",
      definition.name,
      `action ${definition.name}: its key function gave two different keys for one input. ${fix}`,
    );
    return;
  }
  const names = Array.isArray(definition.key) ? (definition.key as readonly string[]) : undefined;
  // Without an input (once) the parts are all that was handed in: an id among them was not made by a key function.
  const [first] = callTimeSuspicions({
    parts,
    names,
    input: input === undefined ? parts : input,
    now: clock.instant().now,
  });
  if (first) {
    const which =
      first.name === null ? `part ${first.part + 1} of its key` : `the key field ${JSON.stringify(first.name)}`;
    warnings.warn(
      "CALL_TIME_KEY",
      definition.name,
      `action ${definition.name}: ${which} looks made at call time (${first.why}). ${fix}`,
    );
  }
}

/** A keep that was given is honoured. One that ends before the window does lets the intent happen once more in it. */
export function warnOfShortKeep({ definition: { name }, keep }: Call, warnings: Warnings): void {
  const { keepMs, tooShortFor } = keep;
  if (keepMs === null || tooShortFor === null) return;
  const [given, least, length] = [keepMs, leastKeepMs(tooShortFor.lengthMs), tooShortFor.lengthMs].map(formatDuration);
  warnings.warn(
    "KEEP_SHORTER_THAN_WINDOW",
    name,
    `action ${name}: its key has a window of ${length}, and keep is ${given}: a call late in the window could find the record gone and run again. Give keep: ${JSON.stringify(least)} (two windows) or more, or leave keep out.`,
  );
}

/** What the ledger is told about the call when it claims; the input is bound to the fence the claim will get. */
export function intentOf(call: Call, current: LedgerRecord | null, payloads: Payloads): Intent {
  const { key, tenant, version, scope, agent, definition } = call;
  const fence = (current?.fence ?? 0) + 1;
  return {
    key,
    tenant,
    action: definition.name,
    version,
    scope,
    agent,
    fingerprint: toFingerprint(call.print),
    input: payloads.store(call.given, "input", DEFAULT_LIMITS.inputBytes, { tenant, key, fence }),
    keepMs: call.keep.keepMs,
    guardUntil: call.keep.guardUntil,
  };
}

/** A call of a dead letter that belongs to an order: queued again, at its end. Null: the record is no such dead letter. */
export function queueAgainOf(
  call: Call,
  current: LedgerRecord | null,
  payloads: Payloads,
  at: Instant,
): LedgerEvent | null {
  if (current === null || current.state !== "failed" || current.final || current.terms?.line === undefined) return null;
  const { line, priority } = current.terms;
  const terms = { line, ...(priority !== undefined && { priority }) };
  return { type: "enqueue", intent: intentOf(call, current, payloads), dueAt: at.now, terms };
}
