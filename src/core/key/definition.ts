/**
 * What an action's key is made of, as far as it can be told from outside, so that a changed definition is noticed: under
 * another key everything that was done before would be done again. A list of fields is data, and compared exactly. The text of
 * a function changes with every minifier, so a function counts as changed only where its text is another one and its parts are,
 * too: their number, their types, the fields of the input they were taken from. Values are in none of it.
 */
import { windowsIn } from "../keep.ts";
import { digestText } from "./key.ts";
import { ownEntries, safeName } from "./leaves.ts";
import { labelOf } from "./normal.ts";
import type { KeyOption } from "./parts.ts";

/** One part: its type, and the top-level fields of the input that held this very value. */
interface PartShape {
  readonly type: string;
  readonly fields: readonly string[];
}

export type KeyShape =
  | { readonly kind: "fields"; readonly fields: readonly (readonly [name: string, form: string | null])[] }
  | { readonly kind: "input"; readonly free: readonly string[] }
  | { readonly kind: "function"; readonly source: string; readonly shapes: readonly (readonly PartShape[])[] };

/** What the ledger keeps of an action's key. */
export interface KeyNote {
  readonly key: KeyShape;
  /** What `formerly` named beside it: processes with those definitions may still run. */
  readonly formerly: readonly KeyShape[];
  /** The name of the action, where it is a guarded tool's: so that the command knows its records. */
  readonly tool?: string;
}

// A guard makes the key function of its tool anew; this is what stands behind it.
const BEHIND = Symbol.for("nevertwice.key-behind");

/** `behind`: the function that a key function passes its input to, or the free fields where it takes the whole input. */
export function keyStandsFor<F extends object>(key: F, behind: { readonly free: readonly string[] } | object): F {
  return Object.defineProperty(key, BEHIND, { value: behind });
}

export interface Derived {
  readonly key: KeyOption<never> | undefined;
  readonly free: readonly string[];
  readonly parts: readonly unknown[];
  readonly input: unknown;
}

export function keyShape({ key, free, parts, input }: Derived): KeyShape {
  if (key === undefined) return { kind: "input", free: [...free].sort() };
  if (typeof key !== "function") return { kind: "fields", fields: fieldsOf(key) };
  const behind = (key as { readonly [BEHIND]?: { readonly free?: readonly string[] } })[BEHIND];
  if (behind?.free !== undefined) return { kind: "input", free: [...behind.free].sort() };
  const source = digestText(String(behind ?? key)).slice(0, 16);
  return { kind: "function", source, shapes: [parts.map((part) => partShape(part, input))] };
}

function fieldsOf(key: Exclude<KeyOption<never>, (input: never) => unknown>): (readonly [string, string | null])[] {
  if (Array.isArray(key)) return key.map((name: string) => [name, null] as const);
  return Object.entries(key).map(
    ([name, map]) => [name, typeof map === "function" ? (labelOf(map as object) ?? "function") : null] as const,
  );
}

function partShape(part: unknown, input: unknown): PartShape {
  const entries = typeof input === "object" && input !== null && !Array.isArray(input) ? ownEntries(input) : [];
  const fields = entries.flatMap(([name, value]) => (value === part && safeName(name) !== null ? [name] : []));
  return { type: typeOf(part), fields };
}

function typeOf(part: unknown): string {
  if (Array.isArray(part)) return "array";
  if (typeof part !== "string") return typeof part;
  const [window] = windowsIn(JSON.stringify(part)).filter(({ whole }) => whole);
  return window === undefined ? "string" : `window ${window.lengthMs}`;
}

/** Whether two definitions may well be one. */
export function sameKeyShape(a: KeyShape, b: KeyShape): boolean {
  if (a.kind === "input" || b.kind === "input") {
    return a.kind === b.kind && JSON.stringify(a) === JSON.stringify(b);
  }
  if (a.kind === "fields" && b.kind === "fields") return JSON.stringify(a.fields) === JSON.stringify(b.fields);
  if (a.kind === "function" && b.kind === "function" && a.source === b.source) return true;
  return shapesOf(a).some((one) => shapesOf(b).some((other) => samePartShapes(one, other)));
}

const OF_A_FIELD = "field";

/** A list of fields and a function that returns those fields make the same key. */
function shapesOf(shape: Exclude<KeyShape, { readonly kind: "input" }>): readonly (readonly PartShape[])[] {
  if (shape.kind === "function") return shape.shapes;
  return [shape.fields.map(([name, form]) => ({ type: form === null ? OF_A_FIELD : "string", fields: [name] }))];
}

function samePartShapes(a: readonly PartShape[], b: readonly PartShape[]): boolean {
  return a.length === b.length && a.every((part, index) => samePart(part, b[index] as PartShape));
}

function samePart(a: PartShape, b: PartShape): boolean {
  const known = a.fields.length > 0 && b.fields.length > 0;
  if (known) return a.fields.some((name) => b.fields.includes(name));
  const types = [a.type, b.type];
  if (types.includes(OF_A_FIELD)) return !types.includes("object") && !types.includes("array");
  return a.type === b.type;
}

const MOST_SHAPES = 8;

/**
 * What the note is to say after a process with `now` has come; null: what it says already. Parts of a function may differ from
 * input to input: those that were seen are kept together while its text is the same.
 */
export function nextKeyNote(known: KeyNote | null, now: KeyNote): KeyNote | null {
  if (known === null) return now;
  const merged = { ...now, key: mergedShape(known.key, now.key) };
  return JSON.stringify(merged) === JSON.stringify(known) ? null : merged;
}

function mergedShape(known: KeyShape, now: KeyShape): KeyShape {
  if (known.kind !== "function" || now.kind !== "function" || known.source !== now.source) return now;
  const more = now.shapes.filter((one) => !known.shapes.some((other) => samePartShapes(one, other)));
  return more.length === 0 ? known : { ...known, shapes: [...known.shapes, ...more].slice(-MOST_SHAPES) };
}

export type KeyVerdict = "same" | "former" | "changed";

/** What a definition is to the one that the ledger knows. "former": it was replaced by one that still looks under it. */
export function judgeKey(known: KeyNote | null, now: KeyNote): KeyVerdict {
  if (known === null || sameKeyShape(known.key, now.key)) return "same";
  if (known.formerly.some((shape) => sameKeyShape(shape, now.key))) return "former";
  return now.formerly.some((shape) => sameKeyShape(shape, known.key)) ? "same" : "changed";
}

export function readKeyNote(json: string | null): KeyNote | null {
  if (json === null) return null;
  const note = JSON.parse(json) as KeyNote;
  return typeof note?.key?.kind === "string" && Array.isArray(note.formerly) ? note : null;
}

export function describeKey(shape: KeyShape): string {
  switch (shape.kind) {
    case "input":
      return shape.free.length === 0 ? "the whole input" : `the whole input without ${shape.free.join(", ")}`;
    case "fields":
      return `[${shape.fields.map(([name, form]) => (form === null ? name : `${name} (${form.split(" ")[0]})`)).join(", ")}]`;
    case "function":
      return `a function of ${(shape.shapes.at(-1) ?? []).map(({ type, fields }) => fields[0] ?? type).join(", ")}`;
  }
}

export function changedKeyWarning(action: string, known: KeyNote, now: KeyNote): string {
  const gave = now.formerly.length > 0 ? " `formerly` names another key than that one." : "";
  const old = known.key;
  // Only what can be written down again as it was: a list of plain fields.
  const isList = old.kind === "fields" && old.fields.every(([, form]) => form === null);
  const line = isList ? JSON.stringify(old.fields.map(([name]) => name)).replaceAll(",", ", ") : "…";
  return (
    `action ${action}: its key has changed. This ledger knows it as ${describeKey(known.key)}, and it is ${describeKey(now.key)} now.${gave} ` +
    "What was done under the old key is not found under the new one, and may be done again. " +
    `Give the old key beside the new one, formerly: { key: ${line} }, for as long as records of it are kept (keep).`
  );
}
