import { isNevertwiceError, NevertwiceError } from "../errors.ts";
import { prepareInput } from "./canonical.ts";
import { emptiness, emptyPart } from "./key.ts";
import { normalisedField } from "./normal.ts";

/** Fields by name: as they are (`true`), or through a function, such as `email`, `text`, `amount("EUR")` or `day`. */
export type KeyFields<I> = {
  readonly [Name in keyof I & string]?: true | ((value: Exclude<I[Name], undefined | null>) => unknown);
};

/** Which parts name an intent: a list of field names, fields with what is made of them, or a function of the input. */
export type KeyOption<I> =
  | readonly (keyof NoInfer<I> & string)[]
  | ((input: I) => readonly unknown[])
  | KeyFields<NoInfer<I>>;

/** The fields that a key names; undefined where a function, or the whole input, makes the parts. */
export function keyFieldNames(option: KeyOption<never> | undefined): readonly string[] | undefined {
  if (option === undefined || typeof option === "function") return undefined;
  return Array.isArray(option) ? option : Object.keys(option);
}

/** The parts of an input. Without a key option there is one: the input without its free fields. */
export function keyParts<I>(
  option: KeyOption<I> | undefined,
  input: I,
  free: readonly string[],
  action: string,
): readonly unknown[] {
  if (option === undefined) return [wholeInput(input, free, action)];
  if (typeof option === "function") return partsOfFunction(option, input, action);
  if (Array.isArray(option)) return withoutDates(option, partsOfFields(option, input, action), action);
  if (typeof option !== "object" || option === null)
    throw invalidKey(action, "`key` must be a list of field names or a function of the input, or an object of fields.");
  return partsOfMappedFields(option as KeyFields<Record<string, unknown>>, input, action);
}

/** Said here, where the field has a name. */
function withoutDates(names: readonly string[], values: readonly unknown[], action: string): readonly unknown[] {
  const index = values.findIndex((value) => value instanceof Date);
  if (index === -1) return values;
  throw invalidKey(
    action,
    `the key field ${JSON.stringify(names[index])} is a Date, which is never the same on a repeat. Put it through a window, { ${JSON.stringify(names[index])}: day } (or week, month …), or pass its toISOString() if the very instant is meant.`,
  );
}

function partsOfMappedFields(
  option: KeyFields<Record<string, unknown>>,
  input: unknown,
  action: string,
): readonly unknown[] {
  const names = Object.keys(option);
  const values = partsOfFields(names, input, action);
  return names.map((name, index) => {
    const map = option[name];
    if (typeof map !== "function") return withoutDates([name], [values[index]], action)[0];
    try {
      const part = normalisedField(name, values[index], map as (value: unknown) => unknown);
      const empty = emptiness(part);
      if (empty !== null) throw emptyPart("what it returned", empty);
      return part;
    } catch (error) {
      const what = isNevertwiceError(error) ? `: ${error.message}` : " threw an error (see cause).";
      throw invalidKey(action, `the key field ${JSON.stringify(name)}: its function${what}`, error);
    }
  });
}

function wholeInput(input: unknown, free: readonly string[], action: string): unknown {
  // Kind first: a Date or an undefined field is welcome in an input, so the default key must not refuse it either.
  const part = input === undefined ? undefined : prepareInput(input, "input", free);
  const empty = emptiness(part);
  if (empty === null) return part;
  throw invalidKey(
    action,
    `there is no \`key\` and the input is ${empty}${free.length > 0 ? " without its free fields" : ""}. ` +
      "Every such call would share one key: say with `key` what makes an intent different from the next.",
  );
}

function partsOfFields(names: readonly string[], input: unknown, action: string): readonly unknown[] {
  if (names.length === 0)
    throw invalidKey(action, "`key` names no field. Every call would share one key: name at least one.");
  if (typeof input !== "object" || input === null) {
    throw invalidKey(
      action,
      "`key` names fields, but the input is not an object. Use a key function, or pass an object.",
    );
  }
  return names.map((name) => {
    const descriptor = Object.getOwnPropertyDescriptor(input, name);
    if (descriptor === undefined || ("value" in descriptor && descriptor.value === undefined)) {
      throw invalidKey(action, `the input has no field "${name}", which \`key\` names. Pass it, or correct \`key\`.`);
    }
    if (!("value" in descriptor)) {
      throw invalidKey(
        action,
        `the field "${name}" is a getter, which may answer differently each time. Copy its value into a plain field.`,
      );
    }
    const empty = emptiness(descriptor.value);
    if (empty !== null) throw emptyPart(`action "${action}", key field "${name}"`, empty);
    return descriptor.value;
  });
}

function partsOfFunction<I>(option: (input: I) => readonly unknown[], input: I, action: string): readonly unknown[] {
  const parts = callKeyFunction(option, input, action);
  if (Array.isArray(parts)) return parts;
  if (isThenable(parts)) {
    // Nobody will await it: its rejection must not end the process as an unhandled one.
    Promise.resolve(parts).catch(() => {});
    throw invalidKey(
      action,
      "the key function is async. A key is made of the input alone: fetch what it needs before the call and pass it in the input.",
    );
  }
  const what = emptiness(parts) ?? `a ${typeof parts}`;
  throw invalidKey(
    action,
    `the key function returned ${what}, not an array. Return the parts in an array, e.g. (i) => [i.leadId].`,
  );
}

function callKeyFunction<I>(option: (input: I) => unknown, input: I, action: string): unknown {
  try {
    return option(input);
  } catch (error) {
    // Our own messages hold no values and say what to do; another error's message may hold anything, so it stays a cause.
    const what = isNevertwiceError(error)
      ? `the key function threw: ${error.message}`
      : "the key function threw an error (see cause). It must return the parts for every valid input.";
    throw invalidKey(action, what, error);
  }
}

function isThenable(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return typeof (value as { then?: unknown }).then === "function";
}

function invalidKey(action: string, message: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("INVALID_KEY", `action "${action}": ${message}`, { cause });
}
