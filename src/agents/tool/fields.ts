/** The fields of a tool's arguments, and whether a key is left of them. An empty key would make every call the first one's repeat. */
import { configError, NevertwiceError } from "../../core/errors.ts";
import { keyFieldNames } from "../../core/key/parts.ts";
import type { AnyToolOptions } from "./options.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * The names in a schema: zod 3, 4 and mini, a raw shape of them, JSON Schema, a Standard Schema that can be written as one. Null:
 * they are not known; then the arguments of each call decide.
 */
export function fieldsOf(schema: unknown): readonly string[] | null {
  if (schema === undefined || schema === null) return [];
  if (typeof schema !== "object" && typeof schema !== "function") return null;
  const { jsonSchema } = schema as { jsonSchema?: unknown };
  // As the AI SDK wraps it.
  if (isFields(jsonSchema) && isJsonSchema(jsonSchema)) return fieldsOf(jsonSchema);
  const shape = shapeOf(schema) ?? (isJsonSchema(schema) ? (schema.properties ?? {}) : undefined) ?? jsonOf(schema);
  if (isFields(shape)) return Object.keys(shape);
  const values = Object.values(schema);
  return !("~standard" in schema) && values.every(isSchema) ? Object.keys(schema) : null;
}

export function isSchema(value: unknown): boolean {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  return "~standard" in value || "_zod" in value || "_def" in value || "safeParse" in value;
}

function shapeOf(schema: object): unknown {
  const { _zod, _def, shape } = schema as {
    _zod?: { def?: { shape?: unknown } };
    _def?: { shape?: unknown };
    shape?: unknown;
  };
  if (_zod === undefined && _def === undefined) return undefined;
  const found = _zod?.def?.shape ?? _def?.shape ?? shape;
  return typeof found === "function" ? (found as () => unknown)() : found;
}

function isJsonSchema(schema: object): schema is { readonly properties?: unknown } {
  return (schema as { type?: unknown }).type === "object" && !("~standard" in schema);
}

function jsonOf(schema: object): unknown {
  const standard = (schema as { "~standard"?: { jsonSchema?: { input?: (options: object) => unknown } } })["~standard"];
  try {
    return (standard?.jsonSchema?.input?.({ target: "draft-2020-12" }) as { properties?: unknown } | undefined)
      ?.properties;
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** At the definition: a tool that takes arguments has a key made of at least one of them. */
export function requireKey(schema: unknown, { key, free = [] }: AnyToolOptions, where: string): void {
  requireFields(schema, keyFieldNames(key), where);
  const fields = key === undefined ? fieldsOf(schema) : null;
  if (fields === null || fields.length === 0 || fields.some((field) => !free.includes(field))) return;
  throw configError(
    `${where}: all of its arguments (${fields.join(", ")}) are free, so that nothing is left for the key: every call would be taken for a repeat of the first. Leave one out of free, or give key: a field, or (args) => [a constant] where it happens once in its scope.`,
  );
}

/** A key field that no call can have: each call would be refused, and only a model would hear of it. */
function requireFields(schema: unknown, named: readonly string[] | undefined, where: string): void {
  const fields = named === undefined || takesOthers(schema) ? [] : (fieldsOf(schema) ?? []);
  const missing = fields.length === 0 ? undefined : named?.find((field) => !fields.includes(field));
  if (missing === undefined) return;
  throw configError(
    `${where}: key names ${JSON.stringify(missing)}, and the tool takes no such argument. It takes: ${fields.join(", ")}.`,
  );
}

/** Whether a schema lets arguments through that it does not name: zod's loose objects, additionalProperties. */
function takesOthers(schema: unknown): boolean {
  const { _zod, _def, additionalProperties } = (schema ?? {}) as {
    _zod?: { def?: { catchall?: { _zod?: { def?: { type?: unknown } } } } };
    _def?: { unknownKeys?: unknown };
    additionalProperties?: unknown;
  };
  const rest = _zod?.def?.catchall;
  return (
    (rest !== undefined && rest._zod?.def?.type !== "never") ||
    _def?.unknownKeys === "passthrough" ||
    Boolean(additionalProperties)
  );
}

/** The same for a call, where the schema does not say it: arguments came, and each of them is free. */
export function requireKeyOf(args: unknown, { key, free = [] }: AnyToolOptions, tool: string): void {
  if (key !== undefined || free.length === 0 || !isFields(args)) return;
  const given = Object.keys(args).filter((name) => args[name] !== undefined);
  if (given.length === 0 || given.some((name) => !free.includes(name))) return;
  throw new NevertwiceError(
    "INVALID_KEY",
    `tool ${JSON.stringify(tool)}: all arguments of this call (${given.join(", ")}) are free, so that nothing is left for the key. Nothing was run: it would be taken for a repeat of any other such call. Give the tool a key, or leave one of them out of free.`,
  );
}
