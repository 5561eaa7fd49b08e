/**
 * Whether a value comes back from JSON as it was. What is stored is JSON: a value that JSON changes is one thing for whoever made
 * it and another for whoever reads it later.
 */

export interface Lost {
  readonly path: string;
  /** Such as "a Date". */
  readonly what: string;
  /** What to use instead. */
  readonly remedy: string;
  /** It is written as JSON, though as something else. */
  readonly becomesJson: boolean;
}

export interface LostOptions {
  /** What is gone after JSON counts too (undefined, symbols, what is not enumerable, properties of arrays), and -0, and getters. */
  readonly exact?: boolean;
}

interface Walk {
  readonly exact: boolean;
  readonly around: Set<object>;
}

const DEEPEST = 64;

/** The first value that JSON does not bring back as it was. */
export function lostAsJson(value: unknown, path: string, { exact = false }: LostOptions = {}): Lost | null {
  return lostIn(value, path, { exact, around: new Set() });
}

function lostIn(value: unknown, path: string, walk: Walk): Lost | null {
  if (walk.around.size > DEEPEST)
    return { path, what: "nested too deeply", remedy: `Nest at most ${DEEPEST} levels.`, becomesJson: false };
  switch (typeof value) {
    case "string":
    case "boolean":
      return null;
    case "number":
      return lostNumber(value, path, walk);
    case "undefined":
      return walk.exact ? { path, what: "undefined", remedy: "Leave it out, or use null.", becomesJson: false } : null;
    case "bigint":
      return { path, what: "a bigint", remedy: "Use a number or a string.", becomesJson: false };
    case "object":
      return value === null ? null : lostInObject(value, path, walk);
    default:
      return { path, what: `a ${typeof value}`, remedy: "Leave it out.", becomesJson: false };
  }
}

function lostNumber(value: number, path: string, { exact }: Walk): Lost | null {
  if (!Number.isFinite(value)) return { path, what: String(value), remedy: "Use null.", becomesJson: false };
  return exact && Object.is(value, -0) ? { path, what: "-0", remedy: "Use 0.", becomesJson: true } : null;
}

function lostInObject(value: object, path: string, walk: Walk): Lost | null {
  if (walk.around.has(value))
    return { path, what: "an object that contains itself", remedy: "Leave the reference out.", becomesJson: false };
  walk.around.add(value);
  const lost = Array.isArray(value) ? lostInList(value, path, walk) : lostInFields(value, path, walk);
  walk.around.delete(value);
  return lost;
}

function lostInList(list: readonly unknown[], path: string, walk: Walk): Lost | null {
  const prototype = Object.getPrototypeOf(list);
  if ((walk.exact && prototype !== Array.prototype) || hasToJson(list)) return lostInstance(list, path);
  for (let i = 0; i < list.length; i += 1) {
    if (walk.exact && Object.hasOwn(list, i)) {
      const hidden = hiddenProperty(list, String(i), `${path}[${i}]`);
      if (hidden !== null) return hidden;
    }
    const item = list[i] === undefined && !walk.exact ? null : list[i];
    const lost = lostIn(item, `${path}[${i}]`, walk);
    if (lost !== null) return lost;
  }
  if (!walk.exact) return null;
  // The indices, and `length`.
  const extra = Reflect.ownKeys(list).find((name) => name !== "length" && !isIndex(name, list.length));
  return extra === undefined
    ? null
    : {
        path: typeof extra === "symbol" ? `${path}[${String(extra)}]` : `${path}.${extra}`,
        what: "a property of an array, which JSON leaves out",
        remedy: "Use an object with the array in a field.",
        becomesJson: false,
      };
}

function isIndex(name: string | symbol, length: number): boolean {
  return typeof name === "string" && /^(0|[1-9]\d*)$/.test(name) && Number(name) < length;
}

function lostInFields(value: object, path: string, walk: Walk): Lost | null {
  const prototype = Object.getPrototypeOf(value);
  const isPlain = (prototype === Object.prototype || prototype === null) && !(walk.exact && isTagged(value));
  if (!isPlain || hasToJson(value)) return lostInstance(value, path);
  for (const name of walk.exact ? Reflect.ownKeys(value) : Object.keys(value)) {
    const hidden = walk.exact ? hiddenProperty(value, name, fieldPath(path, name)) : null;
    if (hidden !== null) return hidden;
    const lost = lostIn((value as Record<string | symbol, unknown>)[name], fieldPath(path, name), walk);
    if (lost !== null) return lost;
  }
  return null;
}

function fieldPath(path: string, name: string | symbol): string {
  return typeof name === "symbol" ? `${path}[${String(name)}]` : `${path}.${name}`;
}

/** What JSON leaves out, or calls to get a value that may be another one the next time. */
function hiddenProperty(value: object, name: string | symbol, path: string): Lost | null {
  const refused = (what: string, remedy: string): Lost => ({ path, what, remedy, becomesJson: false });
  if (typeof name === "symbol")
    return refused("a property with a symbol as its name", "Use a text as the name, or leave it out.");
  const property = Object.getOwnPropertyDescriptor(value, name);
  if (property?.get !== undefined || property?.set !== undefined)
    return refused("a getter or setter", "Copy the value into a plain field.");
  if (property?.enumerable === false)
    return refused("a property that is not enumerable", "Make it enumerable, or leave it out.");
  return null;
}

function hasToJson(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

/** A boxed primitive or a Date, which JSON writes as such under any prototype. */
function isTagged(value: object): boolean {
  return Object.prototype.toString.call(value) !== "[object Object]" && !Reflect.has(value, Symbol.toStringTag);
}

function lostInstance(value: object, path: string): Lost {
  const name = value.constructor?.name || "class instance";
  return { path, what: `a ${name}`, remedy: remedyFor(value), becomesJson: value instanceof Date };
}

function remedyFor(value: object): string {
  if (value instanceof Date) return "Use its ISO string: date.toISOString().";
  if (value instanceof Map) return "Use a plain object: Object.fromEntries(map).";
  if (value instanceof Set) return "Use an array: [...set].";
  if (ArrayBuffer.isView(value)) return 'Use a string: Buffer.from(bytes).toString("base64").';
  return "Copy the fields that are needed into a plain object.";
}
