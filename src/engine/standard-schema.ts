/** The part of the Standard Schema interface we use (standardschema.dev), by shape: no library is imported for it. */
import { NevertwiceError } from "../core/errors.ts";

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

// Known by itself, so that an action that was given it keeps its synchronous way: nothing is parsed.
const DECLARED: StandardSchema = {
  "~standard": { version: 1, vendor: "nevertwice", validate: (value) => ({ value }) },
};

/** The type of an action's input, where there is no schema: `input: type<Lead>()`. It checks nothing when the program runs. */
export function type<Input>(): StandardSchema<Input, Input> {
  return DECLARED as StandardSchema<Input, Input>;
}

/** Undefined: there is nothing to parse with. */
export function parsingSchema<S extends StandardSchema<unknown, unknown>>(schema: S | undefined): S | undefined {
  return schema?.["~standard"].vendor === "nevertwice" ? undefined : schema;
}

const SHOWN_ISSUES = 5;

export async function parseInput(schema: StandardSchema, input: unknown, action: string): Promise<unknown> {
  let result: SchemaResult<unknown>;
  try {
    result = await schema["~standard"].validate(input);
  } catch (error) {
    throw new NevertwiceError(
      "INVALID_INPUT",
      `${action}: its input schema threw an error (see cause). Nothing was run.`,
      { cause: error },
    );
  }
  if (!result.issues) return result.value;
  // K6: where it does not fit, and not how: libraries quote the value they received in their messages.
  const paths = [...new Set(result.issues.map(pathOf))];
  const more = paths.length > SHOWN_ISSUES ? ` (and ${paths.length - SHOWN_ISSUES} more)` : "";
  throw new NevertwiceError(
    "INVALID_INPUT",
    `${action}: the input does not fit its schema at: ${paths.slice(0, SHOWN_ISSUES).join(", ")}${more}. What is wrong there is in the error's cause. Nothing was run.`,
    {
      cause: result.issues,
    },
  );
}

function pathOf(issue: SchemaIssue): string {
  const path = (issue.path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
  return path.length === 0 ? "input" : path.join(".");
}
