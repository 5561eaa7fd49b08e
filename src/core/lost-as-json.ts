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
  /** An `undefined` field, which is gone after JSON, and -0 count too. */
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
  for (let i = 0; i < list.length; i += 1) {
    const item = list[i] === undefined && !walk.exact ? null : list[i];
    const lost = lostIn(item, `${path}[${i}]`, walk);
    if (lost !== null) return lost;
  }
  return null;
}

function lostInFields(value: object, path: string, walk: Walk): Lost | null {
  const prototype = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null;
  if (!isPlain || typeof (value as { toJSON?: unknown }).toJSON === "function") {
    const name = value.constructor?.name || "class instance";
    return { path, what: `a ${name}`, remedy: remedyFor(value), becomesJson: value instanceof Date };
  }
  for (const name of Object.keys(value)) {
    const lost = lostIn((value as Record<string, unknown>)[name], `${path}.${name}`, walk);
    if (lost !== null) return lost;
  }
  return null;
}

function remedyFor(value: object): string {
  if (value instanceof Date) return "Use its ISO string: date.toISOString().";
  if (value instanceof Map) return "Use a plain object: Object.fromEntries(map).";
  if (value instanceof Set) return "Use an array: [...set].";
  if (ArrayBuffer.isView(value)) return 'Use a string: Buffer.from(bytes).toString("base64").';
  return "Copy the fields that are needed into a plain object.";
}
