/** One caller's wish, with everything that follows from its input: key, fingerprint, policy. */
import { checkAgent } from "../core/agent-name.ts";
import { type Duration, durationMs, formatDuration } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { requireGiven } from "../core/given-option.ts";
import { type Keep, keepOfWindows, leastKeepMs, windowsIn } from "../core/keep.ts";
import { callTimeSuspicions, partsDiffer } from "../core/key/call-time.ts";
import {
  canCompare,
  type DigestKey,
  differing,
  type InputPrint,
  printInput,
  toFingerprint,
} from "../core/key/fingerprint.ts";
import type { NamedKey } from "../core/key/formerly.ts";
import { keyOfText, keyTextOf } from "../core/key/key.ts";
import { nearKeyWarning, RecentKeys } from "../core/key/near-keys.ts";
import { collectNormalised, inNormalForm, type NormalField } from "../core/key/normal.ts";
import { keyFieldNames, keyParts } from "../core/key/parts.ts";
import { proseSuspicions } from "../core/key/prose.ts";
import { nearest } from "../core/nearest.ts";
import type { Instant, LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Intent, LedgerEvent } from "../core/transition.ts";
import type { Checking } from "./check.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import type { Tally } from "./granted.ts";
import type { Slot } from "./limited.ts";
import { inOtherForm } from "./other-form.ts";
import { DEFAULT_LIMITS, type Payloads } from "./payloads.ts";

export interface CallOptions<Tx = unknown> {
  /** A run, session or thread id: the same intent in another scope is another intent. */
  readonly scope?: string;
  /** 1 unless a deliberate resend raised it. */
  readonly version?: number;
  readonly tenant?: string;
  /** Who acts: kept on the record and told with events. Not part of the key. nevertwice({ agent }) unless given. */
  readonly agent?: string;
  readonly wait?: Duration;
  /** The caller's own open transaction: claim, effect and confirm commit with it. `run` has it as ctx.tx. */
  readonly tx?: Tx;
}

/**
 * A call that goes on with the round of tries that earlier calls, of any process, began: it counts as one more try, and
 * keeps to the pause after the last one. Without it every call begins a new round.
 */
export const PACED = Symbol("paced");

export interface PacedOptions extends CallOptions {
  readonly [PACED]?: true;
}

/** A call whose caller decides about the next try: after one that surely sent nothing it answers, and does not pause and try again. */
export const AT_ONCE = Symbol("at once");

export interface AtOnceOptions extends CallOptions {
  readonly [AT_ONCE]?: true;
}

/** What a call of a guarded tool has beside the options of any other. By registered symbol: the guard may be of another copy. */
export const OF_TOOL = Symbol.for("nevertwice.of-tool");

export interface OfTool {
  /** It runs whatever it is answered: counted as observed, and not as prevented. */
  readonly observed?: boolean;
  /** Its place under the tool's limit: given back by whoever made the call. */
  readonly slot?: Slot;
  /** What it was answered is counted by whoever made the attempt, who may make another. */
  readonly tally?: Tally;
  /** Which of the identical calls of one turn it is; 1 unless given. In the key from 2 on. */
  readonly ordinal?: number;
  /** Who granted this version. */
  readonly resend?: { readonly by: string; readonly reason: string } | undefined;
}

export interface ToolCallOptions extends CallOptions {
  readonly [OF_TOOL]?: OfTool;
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
  /** The text that the key is a digest of. */
  readonly keyed?: string;
  /** What the key takes in another form than the input has it. */
  readonly normal?: readonly NormalField[] | null;
  /** The keys that the intent had under earlier definitions, the latest first. */
  readonly former?: readonly FormerKey[] | undefined;
  /** The key that the input has, where the record is under a former one, and the action's name that the record has. */
  readonly calledAs?: string;
  readonly recordedFor?: string;
  readonly defaults?: CallDefaults;
  readonly paced?: boolean;
  readonly atOnce?: boolean;
  readonly ofTool?: OfTool;
  /** Absent: the action has no check. */
  readonly checking?: Checking;
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

export interface FormerKey extends NamedKey {
  readonly normal: readonly NormalField[] | null;
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
  /** What reads the input that a record was made with. */
  readonly payloads?: Pick<Payloads, "load">;
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

// The key function is run twice for the first few inputs only: enough to catch a random part, too little to cost.
const CHECKED_CALLS = 3;
const checked = new WeakMap<Definition, number>();

/** K5, K9: says so when a part of the key looks made at call time, or like prose: each would defeat the whole thing. */
export function warnOfKeyParts(
  definition: Definition,
  input: unknown,
  clock: { instant(): Instant },
  warnings: Warnings,
): void {
  const seen = checked.get(definition) ?? 0;
  if (seen >= CHECKED_CALLS) return;
  checked.set(definition, seen + 1);
  const parts = keyParts(definition.key, input, definition.free, definition.name);
  // Without an input (once) the parts are all that was handed in: an id among them was not made by a key function.
  const query = { parts, names: keyFieldNames(definition.key), input: input === undefined ? parts : input };
  const again =
    typeof definition.key === "function" ? keyParts(definition.key, input, definition.free, definition.name) : parts;
  warnOfCallTimeParts(definition, { ...query, again, now: clock.instant().now }, warnings);
  warnOfProse(definition, query, warnings);
}

interface PartsQuery {
  readonly parts: readonly unknown[];
  readonly names: readonly string[] | undefined;
  readonly input: unknown;
}

function warnOfCallTimeParts(
  { name, inbound }: Definition,
  { again, ...query }: PartsQuery & { readonly again: readonly unknown[]; readonly now: number },
  warnings: Warnings,
): void {
  if (warnings.said("CALL_TIME_KEY", name)) return;
  const fix =
    "Derive every part from the intent (ids, a template, day(at)), never from the call; otherwise each retry gets a new key and runs again.";
  if (partsDiffer(query.parts, again)) {
    warnings.warn(
      "CALL_TIME_KEY",
      name,
      `action ${name}: its key function gave two different keys for one input. ${fix}`,
    );
    return;
  }
  const [first] = callTimeSuspicions({ ...query, inbound });
  if (first === undefined) return;
  const door =
    inbound || !/event/i.test(first.name ?? "")
      ? ""
      : " Where the action handles events that come in, say so with inbound: true.";
  warnings.warn(
    "CALL_TIME_KEY",
    name,
    `action ${name}: ${placeOf(first)} looks made at call time (${first.why}). ${fix}${door}`,
  );
}

function warnOfProse({ name, writtenAs }: Definition, query: PartsQuery, warnings: Warnings): void {
  const [first] = proseSuspicions(query);
  if (first === undefined) return;
  const where = writtenAs === "tool" ? "the tool's `free`" : "`free`";
  warnings.warn(
    "PROSE_IN_KEY",
    name,
    `action ${name}: ${placeOf(first)} looks like written text (${first.why}). Worded anew, it is another key, and the effect happens again. Key on what the text is about (an id, a digest of its source, a template's name), and name the text in ${where}.`,
  );
}

function placeOf({ name, part }: { readonly name: string | null; readonly part: number }): string {
  return name === null ? `part ${part + 1} of its key` : `the key field ${JSON.stringify(name)}`;
}

// Names may be made at call time (once): only so many are watched.
const MOST_WATCHED = 1_000;
const watched = new WeakMap<Warnings, Map<string, RecentKeys | null>>();

/** K8: two keys of one action that a person would take for one. Said once; from then on nothing is compared. */
export function warnOfNearKeys({ definition, keyed }: Call, warnings: Warnings): void {
  if (keyed === undefined) return;
  let actions = watched.get(warnings);
  if (actions === undefined) {
    actions = new Map();
    watched.set(warnings, actions);
  }
  let recent = actions.get(definition.name);
  if (recent === null) return;
  if (recent === undefined) {
    if (actions.size >= MOST_WATCHED) actions.clear();
    recent = new RecentKeys();
    actions.set(definition.name, recent);
  }
  const near = recent.add(keyed);
  if (near === null) return;
  actions.set(definition.name, null);
  const message = nearKeyWarning(definition.name, near, keyFieldNames(definition.key));
  warnings.warn("NEAR_KEYS", definition.name, message);
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

/** Whether the intent may have a record under an earlier key. */
export function hasFormer({ former }: Call): boolean {
  return former !== undefined && former.length > 0;
}
