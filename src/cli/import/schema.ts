/** Types of CSV columns by an action's schema: of the readings of a text, the one that the schema accepts. */
import type { PastAccess } from "../../engine/past.ts";
import type { StandardSchema } from "../../engine/standard-schema.ts";
import { type ColumnGuesses, type ColumnType, converted, fits } from "./types.ts";

type Input = Record<string, unknown>;

const READINGS: readonly ColumnType[] = ["number", "boolean", "json", "date", "timestamp"];

export class SchemaTypes {
  readonly #decided = new Map<string, ColumnType>();
  readonly #access: PastAccess;
  readonly #schema: StandardSchema;
  readonly #guesses: ColumnGuesses;

  constructor(access: PastAccess, schema: StandardSchema, guesses: ColumnGuesses) {
    this.#access = access;
    this.#schema = schema;
    this.#guesses = guesses;
  }

  /** `input` with the texts of `open` columns as the schema takes them. A column keeps the type that it was first given. */
  async typed(input: Input, open: readonly string[], place: number): Promise<Input> {
    const typed = { ...input };
    for (const column of open) {
      const type = this.#decided.get(column);
      if (type !== undefined) typed[column] = converted(input[column], type, column, "the action's schema");
    }
    const accepted: string[] = [];
    for (const column of open.filter((one) => !this.#decided.has(one))) {
      const text = input[column] as string;
      const asText = await this.#accepts(typed, column);
      const other = asText ? null : await this.#otherReading(typed, column, text);
      if (asText) accepted.push(column);
      else if (other !== null) {
        this.#decided.set(column, other);
        typed[column] = converted(text, other, column);
      }
    }
    for (const column of accepted) await this.#settle(typed, column, input[column] as string, place);
    return typed;
  }

  /** Accepted as text: if it is accepted as something else too, both have to be the same intent. */
  async #settle(typed: Input, column: string, text: string, place: number): Promise<void> {
    const other = await this.#otherReading(typed, column, text);
    if (other !== null) {
      const [one, two] = await Promise.all([
        this.#identity(typed),
        this.#identity({ ...typed, [column]: converted(text, other, column) }),
      ]);
      if (one !== two) return this.#guesses.note(column, text, place);
    }
    if (READINGS.some((type) => fits(text, type))) this.#decided.set(column, "text");
    else this.#guesses.note(column, text, place);
  }

  async #otherReading(input: Input, column: string, text: string): Promise<ColumnType | null> {
    for (const type of READINGS) {
      if (!fits(text, type)) continue;
      if (await this.#accepts({ ...input, [column]: converted(text, type, column) }, column)) return type;
    }
    return null;
  }

  async #accepts(input: Input, column: string): Promise<boolean> {
    try {
      const { issues } = await this.#schema["~standard"].validate(input);
      return !issues?.some(({ path = [] }) => {
        const [step] = path;
        return step === undefined || (typeof step === "object" ? step.key : step) === column;
      });
    } catch {
      return false;
    }
  }

  /** Null: the rest of the input does not fit, which is reported with its line. */
  async #identity(input: Input): Promise<string | null> {
    try {
      return (await this.#access.intentOf(input, {})).identity;
    } catch {
      return null;
    }
  }
}

/** The fields that the schema names, where it can describe itself as JSON Schema; null: it cannot. */
export function fieldsOf(schema: StandardSchema | undefined): string[] | null {
  const standard = schema?.["~standard"] as
    | { jsonSchema?: { input?: (options: object) => { properties?: object } } }
    | undefined;
  // zod refuses dates otherwise: JSON Schema has none, and only the names are read here.
  const options = { target: "draft-2020-12", libraryOptions: { unrepresentable: "any" } };
  try {
    const properties = standard?.jsonSchema?.input?.(options)?.properties;
    return properties === undefined ? null : Object.keys(properties);
  } catch {
    return null;
  }
}
