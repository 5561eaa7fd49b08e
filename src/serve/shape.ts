/**
 * The shapes of requests, each written once: it checks what came, and describes itself as JSON Schema for the OpenAPI
 * document. So the description cannot differ from what is accepted.
 */
import { type Duration, durationMs } from "../core/duration.ts";
import { messageOf, NevertwiceError } from "../core/errors.ts";
import { isKey } from "../core/key/key.ts";
import { unstorableIn } from "../core/storable-text.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

export interface Shape<T> {
  readonly schema: JsonSchema;
  /** What is wrong with the value, and what is taken instead; null: nothing. */
  wrong(value: unknown, where: string): string | null;
  /** For types only. */
  readonly of?: T;
}

export interface Field<T, Required extends boolean = boolean> {
  readonly shape: Shape<T>;
  readonly about: string;
  readonly required: Required;
}

export type Fields = Readonly<Record<string, Field<unknown>>>;

export type ValuesOf<F extends Fields> = {
  readonly [K in keyof F as F[K] extends Field<unknown, true> ? K : never]: F[K] extends Field<infer T> ? T : never;
} & {
  readonly [K in keyof F as F[K] extends Field<unknown, true> ? never : K]?: F[K] extends Field<infer T> ? T : never;
};

export function required<T>(shape: Shape<T>, about: string): Field<T, true> {
  return { shape, about, required: true };
}

export function optional<T>(shape: Shape<T>, about: string): Field<T, false> {
  return { shape, about, required: false };
}

/** Not blank: a variable that is not set must not name anything. */
export function text(maxLength: number): Shape<string> {
  return {
    schema: { type: "string", minLength: 1, maxLength },
    wrong(value, where) {
      if (typeof value !== "string" || value.trim() === "" || value.length > maxLength)
        return `${where} takes a text of 1 to ${maxLength} characters that is not blank; got ${shown(value)}`;
      const unstorable = unstorableIn(value);
      return unstorable === null ? null : `${where}: ${unstorable}; leave that character out`;
    },
  };
}

export function whole(minimum: number, maximum: number): Shape<number> {
  return {
    schema: { type: "integer", minimum, maximum },
    wrong(value, where) {
      if (Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum) return null;
      return `${where} takes a whole number from ${minimum} to ${maximum}; got ${shown(value)}`;
    },
  };
}

export function oneOf<const T extends string>(...words: readonly T[]): Shape<T> {
  return {
    schema: { enum: words },
    wrong: (value, where) =>
      (words as readonly unknown[]).includes(value)
        ? null
        : `${where} takes ${words.map((word) => JSON.stringify(word)).join(", ")}; got ${shown(value)}`,
  };
}

const DURATION_SCHEMA = {
  description: 'A duration: "500ms", "30s", "5m", "24h", "30d", or milliseconds.',
  oneOf: [
    { type: "string", pattern: "^\\d+(\\.\\d+)?\\s*(ms|s|m|h|d|w)$" },
    { type: "number", minimum: 0 },
  ],
};

export function duration(mostMs = Number.POSITIVE_INFINITY, most = ""): Shape<Duration> {
  return {
    schema: DURATION_SCHEMA,
    wrong(value, where) {
      try {
        const ms = durationMs(value as Duration, where);
        return ms <= mostMs ? null : `${where} is longer than ${most}, the longest that is taken here`;
      } catch (error) {
        return messageOf(error).replace(/\.$/, "");
      }
    },
  };
}

/** An instant as ISO 8601 with its zone, or epoch milliseconds. */
export const instant: Shape<string | number> = {
  schema: {
    oneOf: [
      { type: "string", format: "date-time" },
      { type: "integer", minimum: 0 },
    ],
  },
  wrong: (value, where) =>
    instantMs(value) === null
      ? `${where} takes an instant, as ISO 8601 with its zone ("2026-01-15T09:00:00Z") or epoch milliseconds; got ${shown(value)}`
      : null,
};

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;

export function instantMs(value: unknown): number | null {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : null;
  const ms = typeof value === "string" && ISO.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}

export function list<T>(of: Shape<T>, minItems: number, maxItems: number): Shape<readonly T[]> {
  return {
    schema: { type: "array", items: of.schema, minItems, maxItems },
    wrong(value, where) {
      if (!Array.isArray(value) || value.length < minItems || value.length > maxItems)
        return `${where} takes a list of ${minItems} to ${maxItems}; got ${shown(value)}`;
      return first(value.map((one, at) => of.wrong(one, `${where}[${at}]`)));
    },
  };
}

/** Any JSON. Whether it may be stored or keyed is decided where that is done. */
export const json: Shape<unknown> = { schema: {}, wrong: () => null };

export const recordKey: Shape<string> = {
  schema: { type: "string", pattern: "^nt1_[0-9a-v]{52}$" },
  wrong: (value, where) =>
    typeof value === "string" && isKey(value)
      ? null
      : `${where} takes a whole key, nt1_ and 52 characters; got ${shown(value)}`,
};

export function either<A, B>(one: Shape<A>, other: Shape<B>): Shape<A | B> {
  return {
    schema: { oneOf: [one.schema, other.schema] },
    wrong(value, where) {
      const [a, b] = [one.wrong(value, where), other.wrong(value, where)];
      return a === null || b === null
        ? null
        : `${typeof value === "object" ? b : a}. Or: ${typeof value === "object" ? a : b}`;
    },
  };
}

export function fields<F extends Fields>(of: F): Shape<ValuesOf<F>> {
  return {
    schema: objectSchema(of),
    wrong: (value, where) => wrongFields(value, of, where),
  };
}

/** The body of a request, or an error that names the first thing that is wrong with it. */
export function checked<F extends Fields>(body: unknown, of: F, where: string): ValuesOf<F> {
  const wrong = wrongFields(body, of, where);
  if (wrong === null) return body as ValuesOf<F>;
  throw new NevertwiceError("INVALID_INPUT", `${wrong}. Nothing was changed.`);
}

function wrongFields(value: unknown, of: Fields, where: string): string | null {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return `${where} takes an object; got ${shown(value)}`;
  const given = value as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(of, name));
  if (unknown !== undefined)
    return `${where}: there is no field ${shown(unknown)}. The fields are: ${Object.keys(of).join(", ")}`;
  const missing = Object.keys(of).find((name) => of[name]?.required && !Object.hasOwn(given, name));
  if (missing !== undefined) return `${where}: ${missing} is missing (${of[missing]?.about})`;
  return first(Object.entries(given).map(([name, one]) => of[name]?.shape.wrong(one, `${where}: ${name}`) ?? null));
}

export function objectSchema(of: Fields): JsonSchema {
  return {
    type: "object",
    properties: Object.fromEntries(
      Object.entries(of).map(([name, { shape, about }]) => [name, { ...shape.schema, description: about }]),
    ),
    required: Object.keys(of).filter((name) => of[name]?.required),
    additionalProperties: false,
  };
}

function first(problems: readonly (string | null)[]): string | null {
  return problems.find((one) => one !== null) ?? null;
}

const SHOWN = 40;

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  const written = JSON.stringify(value);
  return written.length > SHOWN ? `${written.slice(0, SHOWN)}…` : written;
}
