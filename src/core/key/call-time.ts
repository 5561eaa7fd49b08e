/**
 * Notices key parts that were made at call time. Such a key is new on every retry and guards nothing. This warns and
 * never refuses, so it would rather miss one than cry wolf; and it tells the place and the reason, never the value.
 */
import { canonicalKey, preparedText } from "./canonical.ts";
import { leavesOf, ownEntries, plainName, safeName } from "./leaves.ts";

export interface CallTimeSuspicion {
  readonly code: "CALL_TIME_KEY";
  /** Index of the part. */
  readonly part: number;
  /** The field's name, where there is one. */
  readonly name: string | null;
  readonly why: string;
}

export interface CallTimeQuery {
  readonly parts: readonly unknown[];
  /** Field names, when the key is a list of them. */
  readonly names?: readonly string[] | undefined;
  readonly input: unknown;
  readonly now: number;
  /** The action handles events that come in: there, the id of the event is what names the intent. */
  readonly inbound?: boolean;
}

const NEAR_MS = 5_000;
const MOST_PARTS = 64;
const LONGEST_TEXT = 512;

export function callTimeSuspicions({ parts, names, input, now, inbound = false }: CallTimeQuery): CallTimeSuspicion[] {
  const found: CallTimeSuspicion[] = [];
  for (let part = 0; part < Math.min(parts.length, MOST_PARTS); part += 1) {
    for (const { name, value } of leavesOf(parts[part], names?.[part] ?? null)) {
      if (inbound && isEventId(name, value)) continue;
      const why = suspicion(name, value, input, now);
      if (why !== null) found.push({ code: "CALL_TIME_KEY", part, name: name === null ? null : safeName(name), why });
    }
  }
  return found;
}

/** True when two runs of a key function on one input disagree, which only something made at call time can cause. */
export function partsDiffer(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length !== b.length || a.some((part, index) => textOf(part) !== textOf(b[index]));
}

/** null when the part is refused anyway, with a better message than a warning. */
function textOf(part: unknown): string | null {
  try {
    return preparedText(part) ?? canonicalKey(part, "key");
  } catch {
    return null;
  }
}

function suspicion(name: string | null, value: unknown, input: unknown, now: number): string | null {
  const byName = name === null ? null : suspiciousName(name, value);
  if (byName !== null) return byName;
  if (typeof value === "number") return isEpochNow(value, now) ? REASONS.clock : null;
  if (typeof value !== "string" || value.length < 8 || value.length > LONGEST_TEXT) return null;
  if (isToolCallId(value)) return REASONS.toolCall;
  if (holdsNow(value, now)) return REASONS.clock;
  if (holdsFreshId(value, now) && !isEntityId(name, value, input)) return REASONS.freshId;
  const random = UUID_V4.exec(value)?.[0];
  return random !== undefined && occursIn(input, random) === false ? REASONS.randomId : null;
}

const REASONS = {
  clock:
    "it is the time of the call, which is another one on a retry: use the time the intent is for, through day(at) or windowOf(…)",
  toolCall: "it looks like the id of a tool call, which is a new one each time the model repeats itself",
  freshId: "it is an id made within the last seconds: made for this call, it is a new one on a retry",
  randomId: "it is a random UUID that is not in the input, so the key function made it: it is a new one on a retry",
  retry: "its name says that it counts tries, so that every retry gets a key of its own",
  moment:
    "its name says that it is the time of the call: use the time the intent is for, through day(at) or windowOf(…)",
  request:
    "its name says that it identifies the call and not the intent: a retry or a redelivery may bring another one",
} as const;

const NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    retry:
      "attempt attempts attemptno attemptnumber attemptcount try tries trycount retry retries retryno retrycount retrynumber retryattempt redeliverycount deliveryattempt",
    moment: "timestamp ts now currenttime currenttimestamp calltime calledat requesttime requestedat invokedat",
    request:
      "nonce random requestid reqid toolcallid tooluseid callid functioncallid invocationid traceid spanid correlationid deliveryid webhookeventid triggereventid",
  }).flatMap(([reason, names]) =>
    names.split(" ").map((name) => [name, REASONS[reason as keyof typeof REASONS]] as const),
  ),
);

function suspiciousName(name: string, value: unknown): string | null {
  const plain = plainName(name);
  const reason = NAMES.get(plain);
  if (reason !== undefined) return reason === REASONS.moment && isWindowName(value) ? null : reason;
  // The id of a calendar event names an intent ("cancel it"); the id of a delivered event does not.
  const delivered =
    plain === "eventid" && typeof value === "string" && (value.startsWith("evt_") || UUID_ANY.test(value));
  return delivered ? REASONS.request : null;
}

const EVENT_IDS = new Set(
  "id eventid webhookid webhookeventid triggereventid deliveryid messageid notificationid".split(" "),
);

/**
 * Event id at the door, content key at the effect: a redelivered event has the id of the first delivery, so that an action
 * which handles events is right to use it. An effect behind it is not: two events may ask for one effect.
 */
function isEventId(name: string | null, value: unknown): boolean {
  if (typeof value !== "string") return false;
  // Without a name, by its look: an id of the sender's, or a UUID.
  return name === null ? UUID_ANY.test(value) || ULID.test(value) || KSUID.test(value) : EVENT_IDS.has(plainName(name));
}

/** What day, week, month and windowOf give: a field named `timestamp` that went through a window is fine. */
function isWindowName(value: unknown): boolean {
  return (
    typeof value === "string" && /^\d{4}-(?:W\d\d|\d\d(?:-\d\d)?)$|^\d{4}-\d\d-\d\dT[\d:.]+Z\/\d+[a-z]+$/.test(value)
  );
}

function isNear(time: number, now: number): boolean {
  if (!(Math.abs(time - now) <= NEAR_MS)) return false;
  // A whole minute just passed is the slot of a schedule, which is the same on a retry.
  return time === now || time % 60_000 !== 0;
}

/** Epoch milliseconds, seconds, microseconds or nanoseconds. */
function isEpochNow(value: number, now: number): boolean {
  return isNear(value, now) || isNear(value * 1_000, now) || isNear(value / 1_000, now) || isNear(value / 1e6, now);
}

const ISO = /\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d\d:?\d\d)?/g;

function holdsNow(text: string, now: number): boolean {
  for (const match of text.matchAll(ISO)) {
    const iso = match[0];
    if (text[match.index + iso.length] === "/") continue; // the name of a window: "2026-01-15T09:35:00Z/5m"
    const zoned = /[Zz]$|[+-]\d\d:?\d\d$/.test(iso.slice(10));
    if (isNear(Date.parse(zoned ? iso : `${iso}Z`), now)) return true;
  }
  for (const [run] of text.matchAll(/(?<!\d)\d{10,19}(?!\d)/g)) {
    if (isEpochNow(Number(run), now)) return true;
  }
  // Date.now().toString(36), a common home-made id, has eight characters until the year 2059.
  for (const [run] of text.matchAll(/(?<![0-9a-z])[0-9a-z]{8}(?![0-9a-z])/g)) {
    if (isNear(Number.parseInt(run, 36), now)) return true;
  }
  return false;
}

const UUID_V4 = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/i;
const UUID_V7 = /([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/i;
const UUID_ANY = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ULID = /(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])/i;
const KSUID = /(?<![0-9A-Za-z])[0-9A-Za-z]{27}(?![0-9A-Za-z])/;

function holdsFreshId(text: string, now: number): boolean {
  const v7 = UUID_V7.exec(text);
  if (v7 !== null && Math.abs(Number.parseInt(`${v7[1]}${v7[2]}`, 16) - now) <= NEAR_MS) return true;
  const ulid = ULID.exec(text);
  if (ulid !== null && Math.abs(decode(ulid[0].slice(0, 10).toUpperCase(), CROCKFORD) - now) <= NEAR_MS) return true;
  const ksuid = KSUID.exec(text);
  return ksuid !== null && Math.abs(ksuidTime(ksuid[0]) - now) <= NEAR_MS;
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

function decode(text: string, alphabet: string): number {
  let value = 0;
  for (const character of text) value = value * alphabet.length + alphabet.indexOf(character);
  return value;
}

/** 160 bits in base62, of which the first 32 are seconds since 13 May 2014; doubles are exact enough for those. */
function ksuidTime(text: string): number {
  return (Math.floor(decode(text, BASE62) / 2 ** 128) + 1_400_000_000) * 1_000;
}

/** The id of a thing that was created just now (a lead, an order), given to us under a name that says so. */
function isEntityId(name: string | null, value: string, input: unknown): boolean {
  if (name !== null) return /[A-Za-z](?:Id|_id|ID)$/.test(name);
  if (typeof input !== "object" || input === null) return false;
  return ownEntries(input).some(
    ([field, held]) => held === value && /[A-Za-z](?:Id|_id|ID)$/.test(field) && suspiciousName(field, held) === null,
  );
}

// Anthropic, Bedrock and OpenAI. The short prefixes are words as well ("call_customer"): there the rest must look random.
function isToolCallId(text: string): boolean {
  if (/^(?:toolu_|tooluse_|chatcmpl-)[\w-]{4,}$/.test(text)) return true;
  const rest = /^(?:call|fc)_([A-Za-z0-9]{6,})$/.exec(text)?.[1];
  return rest !== undefined && /\d/.test(rest) && /[A-Za-z]/.test(rest);
}

const MOST_VISITS = 2_000;

/** Whether a text occurs in the input; undefined when the input is too large to tell. */
function occursIn(input: unknown, text: string): boolean | undefined {
  const wanted = text.toLowerCase();
  const queue: unknown[] = [input];
  for (let visit = 0; visit < queue.length; visit += 1) {
    if (visit >= MOST_VISITS) return undefined;
    const value = queue[visit];
    if (typeof value === "string" && value.toLowerCase().includes(wanted)) return true;
    if (typeof value !== "object" || value === null) continue;
    for (const [name, held] of ownEntries(value, MOST_VISITS)) {
      if (name.toLowerCase().includes(wanted)) return true;
      queue.push(held);
    }
  }
  return false;
}
