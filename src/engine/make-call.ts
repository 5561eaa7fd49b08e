/** From an input and its options to a call: its key, its fingerprint, and what the ledger is told about it. */

import { checkAgent } from "../core/agent-name.ts";
import { durationMs } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { keepOfWindows, windowsIn } from "../core/keep.ts";
import { canCompare, differing, type InputPrint, printInput, toFingerprint } from "../core/key/fingerprint.ts";
import type { NamedKey } from "../core/key/formerly.ts";
import { keyOfText, keyTextOf } from "../core/key/key.ts";
import { collectNormalised, inNormalForm, type NormalField } from "../core/key/normal.ts";
import { keyParts } from "../core/key/parts.ts";
import { nearest } from "../core/nearest.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Intent, LedgerEvent } from "../core/transition.ts";
import {
  AT_ONCE,
  type AtOnceOptions,
  type Call,
  type CallDefaults,
  type CallOptions,
  type FormerKey,
  OF_TOOL,
  type OfTool,
  PACED,
  type PacedOptions,
  type ToolCallOptions,
} from "./call.ts";
import type { Definition } from "./definition.ts";
import { inOtherForm } from "./other-form.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";

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
  options: PacedOptions & AtOnceOptions & ToolCallOptions,
  defaults: CallDefaults,
): Call {
  for (const option in options) {
    if (!OPTIONS.has(option)) {
      const meant = nearest(option, [...OPTIONS]);
      throw configError(
        `${definition.name}: there is no call option ${JSON.stringify(option)}. The options are: ${[...OPTIONS].join(", ")}.${meant === null ? "" : ` Did you mean ${meant}?`}`,
      );
    }
  }
  const tenant = options.tenant ?? defaults.tenant;
  const version = options.version ?? 1;
  const scope = options.scope ?? null;
  const ofTool = options[OF_TOOL];
  if (options.agent !== undefined) checkAgent(options.agent, definition.name);
  const identity = { tenant, version, scope, ofTool };
  const { text, normal } = keyedBy(definition, input, identity);
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
    print: printOf(normal === null ? input : inNormalForm(input, normal), definition.free, key, defaults),
    paced: options[PACED] === true,
    ...(options[AT_ONCE] === true && { atOnce: true }),
    ...(ofTool !== undefined && { ofTool, ...(ofTool.resend && { resend: ofTool.resend }) }),
    ...((definition.check !== undefined || ofTool?.slot !== undefined) && { checking: { passed: false } }),
    keyed: text,
    normal,
    defaults,
    former:
      definition.formerly.length === 0
        ? undefined
        : formerKeys(definition, input, key, { ...identity, secret: defaults.secret }),
    keep: keepOfWindows(definition.policy.keepMs, definition.policy.keepByHand, windowsIn(text)),
    waitMs:
      options.wait === undefined ? definition.policy.waitMs : durationMs(options.wait, `${definition.name}: wait`),
  };
}

/** A list of names, or no key at all, takes the fields as they are: nothing to collect, in the most calls. */
function derivedParts({ key, free, name }: Definition, input: unknown) {
  if (key === undefined || Array.isArray(key)) return { value: keyParts(key, input, free, name), normal: null };
  return collectNormalised(() => keyParts(key, input, free, name));
}

/** The text that the key of an input is a digest of. */
function keyedBy(definition: Definition, input: unknown, identity: Identity) {
  const { value, normal } = derivedParts(definition, input);
  const { tenant, version, scope, ofTool } = identity;
  const parts = withOrdinal(value, ofTool);
  const plain = typeof definition.key !== "function";
  return { text: keyTextOf({ tenant, action: definition.name, version, scope, parts, plain }), normal };
}

/** What a key is made of beside its parts. */
interface Identity extends Pick<Call, "tenant" | "version" | "scope"> {
  readonly ofTool?: OfTool | undefined;
}

/** Marked, so that no part of a user's own is taken for it. */
function withOrdinal(parts: readonly unknown[], ofTool: OfTool | undefined): readonly unknown[] {
  const { ordinal = 1 } = ofTool ?? {};
  return ordinal === 1 ? parts : [...parts, { "nevertwice.repeat": ordinal }];
}

function formerKeys(
  definition: Definition,
  input: unknown,
  now: string,
  identity: Identity & Pick<CallDefaults, "secret">,
): readonly FormerKey[] {
  const found: FormerKey[] = [];
  for (const { name, key: option } of definition.formerly) {
    if (typeof option === "function" && hadNone(option as (input: never) => unknown, input)) continue;
    const { value, normal } = collectNormalised(() =>
      keyParts(option, input, definition.free, `${definition.name}: formerly`),
    );
    const { tenant, version, scope, secret, ofTool } = identity;
    const parts = withOrdinal(value, ofTool);
    const plain = typeof option !== "function";
    const key = keyOfText(keyTextOf({ tenant, action: name, version, scope, parts, plain }), secret);
    if (key !== now && !found.some((one) => one.key === key)) found.push({ key, action: name, normal });
  }
  return found;
}

/** Null: this input was no intent under the earlier definition. Whatever else the function does is judged where parts are derived. */
function hadNone(option: (input: never) => unknown, input: unknown): boolean {
  try {
    return option(input as never) === null;
  } catch {
    return false;
  }
}

/**
 * The same call for the record under another key of its intent. Digests are bound to the key; and a record that was written
 * under the former definition is compared as that definition compared.
 */
export function rekeyed(call: Call, { key, action }: NamedKey, record: LedgerRecord | null): Call {
  if (key === call.key && call.calledAs === undefined) return call;
  const { definition, input, defaults, former = [], normal = null } = call;
  const under = { ...call, key, recordedFor: action, calledAs: call.calledAs ?? call.key };
  if (defaults === undefined) return under;
  const printAs = (value: unknown, form: readonly NormalField[] | null) =>
    printOf(form === null ? value : inNormalForm(value, form), definition.free, key, defaults);
  const printWith = (form: readonly NormalField[] | null) => printAs(input, form);
  const print = printWith(normal);
  const isRepeat = (one: InputPrint) =>
    record !== null &&
    canCompare(record.fingerprint, one) &&
    differing(record.fingerprint, one, definition.free).guarded.length === 0;
  // `formerly` may be gone by now: then as the input is.
  const forms = [...former.map((one) => one.normal), null];
  const fitting = isRepeat(print) ? print : forms.map(printWith).find(isRepeat);
  if (fitting !== undefined || record === null) return { ...under, print: fitting ?? print };
  const formed = (value: unknown) => {
    const keyed = keyedBy(definition, value, call);
    return { text: keyed.text, print: printAs(value, keyed.normal) };
  };
  return { ...under, print: inOtherForm(call, print, record, formed) };
}

/** The digests of an input, as its action compares it. */
export function printOfInput(
  definition: Definition,
  input: unknown,
  intent: string,
  defaults: CallDefaults,
): InputPrint {
  let normal: readonly NormalField[] | null = null;
  try {
    normal = derivedParts(definition, input).normal;
  } catch {
    // The input of a record is as it was stored: a key function of today may not take it.
  }
  return printOf(normal === null ? input : inNormalForm(input, normal), definition.free, intent, defaults);
}

/** The digests of an input, as the record of this key has them. */
export function printOf(input: unknown, free: readonly string[], intent: string, defaults: CallDefaults): InputPrint {
  const { secret, digestKeys } = defaults;
  return printInput(input, free, secret, digestKeys === undefined ? undefined : { keys: digestKeys, intent });
}

/** What the ledger is told about the call when it claims; the input is bound to the fence the claim will get. */
export function intentOf(call: Call, current: LedgerRecord | null, payloads: Payloads): Intent {
  const { key, tenant, version, scope, agent, definition } = call;
  const fence = (current?.fence ?? 0) + 1;
  return {
    key,
    tenant,
    action: call.recordedFor ?? definition.name,
    version,
    scope,
    agent,
    fingerprint: toFingerprint(call.print),
    input: payloads.store(call.given, "input", DEFAULT_LIMITS.inputBytes, { tenant, key, fence }),
    keepMs: call.keep.keepMs,
    guardUntil: call.keep.guardUntil,
    untilDelivered: definition.policy.untilDelivered === true,
  };
}

/** A call of a dead letter that belongs to an order: queued again, at its end. Null: the record is no such dead letter. */
export function queueAgainOf(
  call: Call,
  current: LedgerRecord | null,
  payloads: Payloads,
  at: Instant,
  otherInput: boolean,
): LedgerEvent | null {
  if (current === null || current.state !== "failed" || current.terms?.line === undefined) return null;
  if (current.final && !otherInput) return null;
  const { line, priority } = current.terms;
  const terms = { line, ...(priority !== undefined && { priority }) };
  return { type: "enqueue", intent: intentOf(call, current, payloads), dueAt: at.now, terms, otherInput };
}
