/** What a worker will read is JSON: an input that would come back as something else is refused at the door. */
import { NevertwiceError } from "../core/errors.ts";
import { printInput } from "../core/key/fingerprint.ts";
import { deriveKey } from "../core/key/key.ts";
import { keyParts } from "../core/key/parts.ts";
import { type Lost, lostAsJson } from "../core/lost-as-json.ts";
import type { Call, CallDefaults } from "./call.ts";
import { DEFAULT_LIMITS } from "./payloads.ts";
import { parseInput } from "./standard-schema.ts";

/** Nothing to wait for where the input is plain JSON: the way of almost every call. */
export function requireStorableInput(call: Call, secret: CallDefaults["secret"]): void | Promise<void> {
  const lost = lostAsJson(call.given, "input");
  if (lost === null) return;
  const { schema, name } = call.definition;
  if (schema === undefined || !lost.becomesJson) throw unstorable(call, lost);
  return requireSameIntent(call, secret, name, lost);
}

/** A Date, say, that the schema makes of the text again. */
async function requireSameIntent(call: Call, secret: CallDefaults["secret"], name: string, lost: Lost): Promise<void> {
  const { definition, tenant, version, scope } = call;
  let input: unknown;
  try {
    input = await parseInput(definition.schema as NonNullable<typeof definition.schema>, asJson(call.given), name);
  } catch (error) {
    throw unstorable(call, lost, error);
  }
  const parts = keyParts(definition.key, input, definition.free, name);
  const sameKey = deriveKey({ tenant, action: name, version, scope, parts, secret }) === call.key;
  const unkeyed = call.print.under(null)?.guarded;
  if (!sameKey || printInput(input, definition.free, secret).guarded !== unkeyed) throw unstorable(call, lost);
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function unstorable({ key, definition }: Call, { path, what }: Lost, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    "INVALID_INPUT",
    `${definition.name}.enqueue: ${path} is ${what}, and would not come back from the ledger as that: a worker reads the input as JSON. Nothing was queued. Enqueue plain data (a Date as its ISO string), or give the action an input schema that makes the same of the text.`,
    { key, cause },
  );
}

/** An input that fits no row cannot be run by a worker later. */
export function inputDoesNotFit(call: Call, omitted: string): NevertwiceError {
  return new NevertwiceError(
    "INVALID_INPUT",
    `${call.definition.name}.enqueue: the input cannot be stored: ${omitted}. Nothing was queued. Store what is large elsewhere and enqueue where it is; an input may have ${DEFAULT_LIMITS.inputBytes} bytes.`,
    { key: call.key },
  );
}
