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

export type InferInput<S> = S extends { readonly "~standard": { readonly types?: infer T } }
  ? NonNullable<T> extends { readonly input: infer I }
    ? I
    : never
  : never;

export type InferOutput<S> = S extends { readonly "~standard": { readonly types?: infer T } }
  ? NonNullable<T> extends { readonly output: infer O }
    ? O
    : never
  : never;

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
