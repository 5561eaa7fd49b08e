/**
 * Canonical JSON (RFC 8785) over a strict value check. Two readers: keys, where anything that could be read in two ways
 * is refused, and inputs, where a Date is its ISO string and an undefined field is absent.
 *
 * Values are read through own property descriptors only. A getter is therefore never invoked, and nothing inherited can
 * change the text.
 */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../errors.ts";

export interface Limits {
  readonly depth: number;
  readonly nodes: number;
  readonly bytes: number;
}

/** A key names an intent: what needs more room than this is content, not a name. */
export const KEY_LIMITS: Limits = { depth: 16, nodes: 10_000, bytes: 64 * 1024 };
export const INPUT_LIMITS: Limits = { depth: 64, nodes: 200_000, bytes: 4 * 1024 * 1024 };

interface Reader {
  readonly code: ErrorCode;
  readonly noun: string;
  readonly limits: Limits;
  /** Dates become ISO strings, undefined fields disappear. */
  readonly kind: boolean;
  readonly plainAdvice: string;
  readonly sizeAdvice: string;
}

const KEY_READER: Reader = {
  code: "INVALID_KEY",
  noun: "a key part",
  limits: KEY_LIMITS,
  kind: false,
  plainAdvice: "Use a string, number, boolean, plain object or array that says what is meant.",
  sizeAdvice: "Key on the few fields that name the intent, such as ids.",
};

const INPUT_READER: Reader = {
  code: "INVALID_INPUT",
  noun: "an input that must match on a repeat",
  limits: INPUT_LIMITS,
  kind: true,
  plainAdvice: "Pass plain data instead, or list its top-level field in `free` if it may differ on a repeat.",
  sizeAdvice: "Pass a reference to it instead, or list its top-level field in `free`.",
};

/** One walk over one value. `trail` and `ancestors` are indexed by depth, so that nothing is built unless it fails. */
interface Walk {
  readonly reader: Reader;
  readonly root: string;
  readonly skip: readonly string[];
  readonly trail: (string | number)[];
  readonly ancestors: object[];
  depth: number;
  nodes: number;
  room: number;
}

const NONE: readonly string[] = [];

/** Strict RFC 8785, for key parts. */
export function canonicalKey(value: unknown, path: string): string {
  return canonical(KEY_READER, value, path, NONE);
}

/** Kinder, for inputs that must match on a repeat. `skip` names top-level fields to leave out, unread. */
export function canonicalInput(value: unknown, path: string, skip: readonly string[] = NONE): string {
  return canonical(INPUT_READER, value, path, skip);
}

/**
 * The present top-level fields of a plain object in canonical order, each with its canonical text; null when the input
 * is no plain object. The text of a free field that cannot be compared is null.
 */
export function canonicalFields(
  input: unknown,
  path: string,
  free: readonly string[],
): readonly (readonly [name: string, text: string | null])[] | null {
  const walk = begin(INPUT_READER, path, NONE);
  return guarded(walk, () => {
    if (typeof input !== "object" || input === null || Array.isArray(input) || !isPlain(input)) return null;
    const fields: [string, string | null][] = [];
    enter(walk, input);
    for (const name of fieldNames(walk, input)) {
      walk.trail[0] = name;
      if (free.includes(name)) {
        const text = freeText(input, name);
        if (text !== undefined) fields.push([name, text]);
        continue;
      }
      const value = readField(walk, input, name);
      if (value === undefined) continue;
      fields.push([name, write(walk, value)]);
    }
    const { bytes } = walk.reader.limits;
    const mayBeOver = (bytes - walk.room) * 3 > bytes;
    if (mayBeOver) checkBytes(walk, fields.map(([name, text]) => (free.includes(name) ? "" : text)).join(""));
    return fields;
  });
}

/** undefined: the field is absent. null: it cannot be compared, which a free field may be. */
function freeText(input: object, name: string): string | null | undefined {
  const descriptor = Object.getOwnPropertyDescriptor(input, name);
  if (descriptor === undefined || !("value" in descriptor)) return null;
  if (descriptor.value === undefined) return undefined;
  try {
    return canonicalInput(descriptor.value, name);
  } catch {
    return null;
  }
}

// The default key is the whole input, which may be larger than a part may be. Its text is remembered here when it is
// made, so that such a part is neither refused for its size nor walked twice.
const preparedTexts = new WeakMap<object, string>();

/** The kinder canonical form of an input as plain data that a strict reader accepts. */
export function prepareInput(input: unknown, path: string, skip: readonly string[]): unknown {
  const text = canonicalInput(input, path, skip);
  const value: unknown = JSON.parse(text);
  if (typeof value === "object" && value !== null) preparedTexts.set(Object.freeze(value), text);
  return value;
}

export function preparedText(part: unknown): string | undefined {
  return typeof part === "object" && part !== null ? preparedTexts.get(part) : undefined;
}

function canonical(reader: Reader, value: unknown, path: string, skip: readonly string[]): string {
  // Most parts are short plain strings: no walk for them.
  if (typeof value === "string" && value.length < 1024 && isWellFormed(value)) return quoted(value);
  const walk = begin(reader, path, skip);
  const text = guarded(walk, () => write(walk, value));
  checkBytes(walk, text);
  return text;
}

function begin(reader: Reader, root: string, skip: readonly string[]): Walk {
  return { reader, root, skip, trail: [], ancestors: [], depth: 0, nodes: 0, room: reader.limits.bytes };
}

/** A Proxy's trap may throw anything, anywhere: that is a refusal like any other. */
function guarded<T>(walk: Walk, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (isNevertwiceError(error)) throw error;
    throw refusal(walk, "this value could not be read", walk.reader.plainAdvice, error);
  }
}

function write(walk: Walk, value: unknown): string {
  walk.nodes += 1;
  if (walk.nodes > walk.reader.limits.nodes) throw tooManyValues(walk);
  switch (typeof value) {
    case "string":
      return writeString(walk, value);
    case "number":
      if (!Number.isFinite(value)) {
        throw refusal(walk, `${value} is not a finite number`, "Check the sum it came from, or leave it out.");
      }
      return spend(walk, String(value)); // String(-0) is "0", as RFC 8785 wants
    case "boolean":
      return spend(walk, value ? "true" : "false");
    case "object":
      return value === null ? spend(walk, "null") : writeObject(walk, value);
    default:
      throw refuseType(walk, value);
  }
}

function writeString(walk: Walk, value: string): string {
  // A UTF-16 unit is at least one byte of UTF-8, so this refuses a huge string before a copy of it is made.
  if (value.length > walk.room) throw tooManyBytes(walk);
  if (!isWellFormed(value)) {
    throw refusal(
      walk,
      "the string has a lone surrogate (half of a character)",
      "It was probably cut in the middle of an emoji: cut it by characters, or call toWellFormed() where it is made.",
    );
  }
  return spend(walk, quoted(value));
}

function writeObject(walk: Walk, value: object): string {
  if (Array.isArray(value)) {
    enter(walk, value);
    const text = writeArray(walk, value);
    walk.depth -= 1;
    return text;
  }
  if (!isPlain(value)) return writeInstance(walk, value);
  enter(walk, value);
  const text = writeFields(walk, value);
  walk.depth -= 1;
  return text;
}

function enter(walk: Walk, value: object): void {
  for (let depth = 0; depth < walk.depth; depth += 1) {
    if (walk.ancestors[depth] === value) {
      throw refusal(walk, "the value contains itself (a cycle)", "Break the cycle: use an id in its place.");
    }
  }
  if (walk.depth >= walk.reader.limits.depth) {
    throw refusal(
      walk,
      `${walk.reader.noun} may be nested ${walk.reader.limits.depth} levels deep, and this is deeper`,
      walk.reader.sizeAdvice,
    );
  }
  walk.ancestors[walk.depth] = value;
  if ("toJSON" in value && toJsonIsCode(value)) {
    throw refusal(walk, "the value has a toJSON method, so it is more than its fields", walk.reader.plainAdvice);
  }
  walk.depth += 1;
}

function toJsonIsCode(value: object): boolean {
  const own = Object.getOwnPropertyDescriptor(value, "toJSON");
  // Inherited, an accessor, or a function. An own data field that merely bears the name is data.
  return own === undefined || !("value" in own) || typeof own.value === "function";
}

function writeArray(walk: Walk, value: readonly unknown[]): string {
  const { length } = value;
  if (walk.nodes + length > walk.reader.limits.nodes) {
    walk.depth -= 1;
    throw tooManyValues(walk);
  }
  if (!isPlainArray(value)) {
    walk.depth -= 1;
    throw refusal(walk, "an instance of an Array subclass is not a plain array", walk.reader.plainAdvice);
  }
  const { depth } = walk;
  let text = "[";
  for (let index = 0; index < length; index += 1) {
    walk.trail[depth - 1] = index;
    const descriptor = Object.getOwnPropertyDescriptor(value, index);
    if (descriptor === undefined) {
      throw refusal(walk, "the array has a hole here", "Fill it, with null if nothing is meant, or close the gap.");
    }
    if (!("value" in descriptor)) throw refuseAccessor(walk);
    text += index === 0 ? write(walk, descriptor.value) : `,${write(walk, descriptor.value)}`;
  }
  refuseExtras(walk, value);
  return `${text}]`;
}

function refuseExtras(walk: Walk, value: readonly unknown[]): void {
  const names = Reflect.ownKeys(value);
  if (names.length === value.length + 1) return; // the elements and `length`
  walk.depth -= 1;
  throw refusal(
    walk,
    "the array carries extra properties besides its elements",
    "Use a plain object for named fields.",
  );
}

function writeFields(walk: Walk, value: object): string {
  const top = walk.depth === 1 && walk.skip.length > 0;
  let text = "";
  for (const name of fieldNames(walk, value)) {
    if (top && walk.skip.includes(name)) continue;
    walk.trail[walk.depth - 1] = name;
    const field = readField(walk, value, name);
    if (field === undefined && walk.reader.kind) continue;
    const label = spend(walk, JSON.stringify(name));
    text += text === "" ? `${label}:${write(walk, field)}` : `,${label}:${write(walk, field)}`;
  }
  return `{${text}}`;
}

/** Own names in UTF-16 order, which is what sort() does by itself. */
function fieldNames(walk: Walk, value: object): string[] {
  const names = Reflect.ownKeys(value);
  if (walk.nodes + names.length > walk.reader.limits.nodes) {
    walk.depth -= 1;
    throw tooManyValues(walk);
  }
  for (const name of names) {
    if (typeof name === "symbol") {
      walk.depth -= 1;
      throw refusal(walk, "the object has a field whose name is a symbol", "Name it with a string, or leave it out.");
    }
    if (name.length > walk.room) throw tooManyBytes(walk);
    if (!isWellFormed(name)) {
      walk.depth -= 1;
      throw refusal(walk, "a field's name has a lone surrogate (half of a character)", "Rename the field.");
    }
  }
  return (names as string[]).sort();
}

function readField(walk: Walk, value: object, name: string): unknown {
  const descriptor = Object.getOwnPropertyDescriptor(value, name);
  if (descriptor === undefined || !("value" in descriptor)) throw refuseAccessor(walk);
  if (!descriptor.enumerable) {
    throw refusal(walk, "the field is hidden (not enumerable)", "Make it a plain field, or leave it out.");
  }
  return descriptor.value;
}

function writeInstance(walk: Walk, value: object): string {
  const time = dateTime(value);
  if (time === undefined) {
    throw refusal(walk, `${nameOf(value)} is not plain data`, instanceAdvice(walk, value));
  }
  if (!walk.reader.kind) {
    throw refusal(
      walk,
      "a Date is never the same on a repeat unless it is put through a window",
      "Use a window such as day(at), week(at), month(at) or windowOf('5m', at), or at.toISOString() if the very instant is meant.",
    );
  }
  if (Number.isNaN(time)) throw refusal(walk, "the Date is invalid", "Check the text it was made from.");
  return spend(walk, `"${new Date(time).toISOString()}"`);
}

function instanceAdvice(walk: Walk, value: object): string {
  if (value instanceof Map) return `Use Object.fromEntries(map). ${walk.reader.plainAdvice}`;
  if (value instanceof Set) return `Use a sorted array. ${walk.reader.plainAdvice}`;
  if (value instanceof String || value instanceof Number || value instanceof Boolean) {
    return "Use the primitive: call valueOf(), and drop the `new`.";
  }
  if (value instanceof Promise) return "Await it first.";
  return walk.reader.plainAdvice;
}

const getTime = Date.prototype.getTime;

/** A brand check: it sees Dates of other realms and is not fooled by Object.create(Date.prototype). */
function dateTime(value: object): number | undefined {
  try {
    return getTime.call(value);
  } catch {
    return undefined;
  }
}

/** Object.prototype or none. Objects of another realm (a vm context, Jest's structuredClone) are plain as well. */
function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/** Array.prototype, then Object.prototype, of whichever realm; a subclass has a longer chain. */
function isPlainArray(value: readonly unknown[]): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === Array.prototype) return true;
  const parent: object | null = prototype === null ? null : Object.getPrototypeOf(prototype);
  return parent !== null && Object.getPrototypeOf(parent) === null;
}

// What names an intent is mostly a field of its input too, and comes here twice in a row. Short as ids are.
const LONGEST_REMEMBERED = 100;
let lastString = "";
let lastQuoted = '""';

function quoted(text: string): string {
  if (text.length > LONGEST_REMEMBERED) return JSON.stringify(text);
  if (text !== lastString) {
    lastQuoted = JSON.stringify(text);
    lastString = text;
  }
  return lastQuoted;
}

/** In Node since 20, in TypeScript's library only since es2024. */
function isWellFormed(text: string): boolean {
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed();
}

function nameOf(value: object): string {
  const prototype: object | null = Object.getPrototypeOf(value);
  const made = prototype === null ? undefined : Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  const name = typeof made === "function" ? Object.getOwnPropertyDescriptor(made, "name")?.value : undefined;
  return typeof name === "string" && /^[\w$]{1,60}$/.test(name) ? `an instance of ${name}` : "a class instance";
}

function refuseType(walk: Walk, value: unknown): NevertwiceError {
  switch (typeof value) {
    case "bigint":
      return refusal(walk, "a BigInt has no JSON form", "Use its decimal string: String(value).");
    case "function":
      return walk.trail[walk.depth - 1] === "toJSON"
        ? refusal(walk, "the value has a toJSON method, so it is more than its fields", walk.reader.plainAdvice)
        : refusal(walk, `a function cannot be part of ${walk.reader.noun}`, walk.reader.plainAdvice);
    case "symbol":
      return refusal(walk, `a symbol cannot be part of ${walk.reader.noun}`, walk.reader.plainAdvice);
    default:
      return refusal(
        walk,
        "the value is undefined",
        "Give it a value, leave the field out, or use null if nothing is meant.",
      );
  }
}

function refuseAccessor(walk: Walk): NevertwiceError {
  return refusal(
    walk,
    "this is a getter, which may answer differently each time",
    "Copy its value into a plain field.",
  );
}

function spend(walk: Walk, text: string): string {
  walk.room -= text.length;
  if (walk.room < 0) throw tooManyBytes(walk);
  return text;
}

/** `spend` counts UTF-16 units, which stops early; only text that could be over in UTF-8 is counted exactly. */
function checkBytes(walk: Walk, text: string): void {
  const { bytes } = walk.reader.limits;
  if (text.length * 3 <= bytes || Buffer.byteLength(text) <= bytes) return;
  walk.depth = 0;
  throw tooManyBytes(walk);
}

function tooManyBytes(walk: Walk): NevertwiceError {
  const { noun, limits, sizeAdvice } = walk.reader;
  return refusal(walk, `${noun} may be ${limits.bytes} bytes of canonical JSON, and this is more`, sizeAdvice);
}

function tooManyValues(walk: Walk): NevertwiceError {
  const { noun, limits, sizeAdvice } = walk.reader;
  return refusal(walk, `${noun} may hold ${limits.nodes} values, and this has more`, sizeAdvice);
}

/** Says where, what and what to do, and never the value: it may be personal data. */
function refusal(walk: Walk, what: string, advice: string, cause?: unknown): NevertwiceError {
  let path = walk.root;
  for (const step of walk.trail.slice(0, walk.depth)) path += stepText(step);
  return new NevertwiceError(walk.reader.code, `${path}: ${what}. ${advice}`, { cause });
}

function stepText(step: string | number): string {
  if (typeof step === "number") return `[${step}]`;
  if (/^[A-Za-z_$][\w$]*$/.test(step) && step.length <= 64) return `.${step}`;
  return `[${JSON.stringify(step.length > 64 ? `${step.slice(0, 64)}…` : step)}]`;
}
