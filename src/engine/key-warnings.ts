import { formatDuration } from "../core/duration.ts";
import { leastKeepMs } from "../core/keep.ts";
import { callTimeSuspicions, partsDiffer } from "../core/key/call-time.ts";
import { nearKeyWarning, RecentKeys } from "../core/key/near-keys.ts";
import { keyFieldNames, keyParts } from "../core/key/parts.ts";
import { proseSuspicions } from "../core/key/prose.ts";
import type { Instant } from "../core/record.ts";
import type { Call } from "./call.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";

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
