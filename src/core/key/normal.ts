/**
 * What `email()`, `text()` and `amount()` made of a value while a key was derived. The comparison of inputs needs it: a
 * value that the key takes in its normal form must not be a conflict because of the form that it came in.
 */

interface Normalised {
  readonly raw: unknown;
  readonly normal: unknown;
}

/** A field of a key, by its place in the input or by its value alone (a key function). */
export interface NormalField extends Normalised {
  /** Null: a key function passed the value on, and where it took it from is not known. */
  readonly field: string | null;
}

// By a registered symbol: the program and the guard of a tool may have a copy of the package each.
const LABEL = Symbol.for("nevertwice.normal-form");

/** Names what a function makes of a field. The name of the function itself does not survive a minifier. */
export function labelled<F extends object>(normalise: F, label: string): F {
  return Object.defineProperty(normalise, LABEL, { value: label });
}

/** Null: a function of the user's. */
export function labelOf(normalise: object): string | null {
  const label = (normalise as { readonly [LABEL]?: unknown })[LABEL];
  return typeof label === "string" ? label : null;
}

let collected: NormalField[] | null = null;
let collecting = false;

/** Called by each helper. Outside of a key function nobody collects, and nothing is kept. */
export function normalised(raw: unknown, normal: string): string {
  if (collecting && raw !== normal) {
    collected ??= [];
    collected.push({ field: null, raw, normal });
  }
  return normal;
}

/** A field that `key: { field: … }` takes through a function: compared as what the function makes of it. */
export function normalisedField(field: string, raw: unknown, derive: (value: unknown) => unknown): unknown {
  const before = collected?.length ?? 0;
  const normal = derive(raw);
  if (!collecting) return normal;
  // What a helper inside of it collected is this very field.
  collected = (collected ?? []).slice(0, before);
  if (raw !== normal) collected.push({ field, raw, normal });
  return normal;
}

/** The parts that `derive` gives, and what was normalised on the way; null: nothing was. Synchronous, as keys are. */
export function collectNormalised<T>(derive: () => T): {
  readonly value: T;
  readonly normal: readonly NormalField[] | null;
} {
  const [outer, outerCollecting] = [collected, collecting];
  collected = null;
  collecting = true;
  try {
    const value = derive();
    // Read anew: the helpers have assigned it.
    const normal = collected as NormalField[] | null;
    return { value, normal: normal === null || normal.length === 0 ? null : normal };
  } finally {
    collected = outer;
    collecting = outerCollecting;
  }
}

const MOST_DEPTH = 8;
const MOST_VISITS = 2_000;

/**
 * The input with its normalised values in their normal form, for the comparison only. A value that a key function passed on is
 * replaced where exactly one place of the input holds it; otherwise it is compared as it came, which refuses too much
 * rather than too little.
 */
export function inNormalForm(input: unknown, normal: readonly NormalField[]): unknown {
  return normal.reduce(
    (changed, one) => (one.field === null ? replaceLone(changed, one) : replaceField(changed, one)),
    input,
  );
}

function replaceField(input: unknown, { field, raw, normal }: NormalField): unknown {
  if (!isPlain(input) || field === null || ownValue(input, field) !== raw) return input;
  return copyWith(input, field, normal);
}

function replaceLone(input: unknown, { raw, normal }: Normalised): unknown {
  const found: (string | number)[][] = [];
  const visits = { left: MOST_VISITS };
  find(input, raw, [], found, visits);
  const [path] = found;
  return path === undefined || found.length > 1 || visits.left <= 0 ? input : replaceAt(input, path, normal);
}

function find(
  value: unknown,
  raw: unknown,
  path: readonly (string | number)[],
  found: (string | number)[][],
  visits: { left: number },
): void {
  visits.left -= 1;
  if (visits.left <= 0 || path.length > MOST_DEPTH) return;
  if (value === raw) {
    found.push([...path]);
    return;
  }
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries()) find(one, raw, [...path, index], found, visits);
  } else if (isPlain(value)) {
    for (const name of Object.keys(value)) find(ownValue(value, name), raw, [...path, name], found, visits);
  }
}

function replaceAt(value: unknown, [step, ...rest]: readonly (string | number)[], normal: unknown): unknown {
  if (step === undefined) return normal;
  if (Array.isArray(value)) return value.map((one, index) => (index === step ? replaceAt(one, rest, normal) : one));
  return copyWith(value as object, step as string, replaceAt(ownValue(value as object, step as string), rest, normal));
}

/** With the getters of the original: the reader that compares refuses them by name. */
function copyWith(value: object, name: string, replaced: unknown): object {
  const copy = Object.create(Object.getPrototypeOf(value)) as object;
  Object.defineProperties(copy, Object.getOwnPropertyDescriptors(value));
  return Object.defineProperty(copy, name, { value: replaced, enumerable: true, configurable: true, writable: true });
}

/** A getter is not invoked. */
function ownValue(value: object, name: string): unknown {
  const descriptor = Object.getOwnPropertyDescriptor(value, name);
  return descriptor !== undefined && "value" in descriptor ? descriptor.value : undefined;
}

function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
