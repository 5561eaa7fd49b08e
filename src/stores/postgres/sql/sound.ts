/**
 * Rows of PostgreSQL have no checksum: whoever may write to the table may change a value. What no release writes is
 * refused here; each check throws, and the record counts as damaged.
 */
import { STATES, type State } from "../../../core/record.ts";

export function soundState(text: string | null): State {
  if ((STATES as readonly (string | null)[]).includes(text)) return text as State;
  throw new TypeError(`its state is ${JSON.stringify(text)}`);
}

/** A counter or a revision. */
export function soundCount(value: number | null | undefined, name: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new TypeError(`its ${name} is ${String(value)}`);
}

export function soundTime(value: number, name: string): number {
  if (Number.isFinite(value)) return value;
  throw new TypeError(`its ${name} is ${String(value)}`);
}

export function soundObject<T extends object>(value: unknown, name: string): T {
  if (isObject(value)) return value as T;
  throw new TypeError(`its ${name} is not an object`);
}

/** A list of fingerprint and, where there is more to say, the rest. */
export function soundDoc<T extends readonly unknown[]>(value: unknown): T {
  const [guarded, free, fields, rest = {}] = value as readonly unknown[];
  const isText = typeof guarded === "string" && (free === null || typeof free === "string");
  if (!isText || !isObject(fields)) throw new TypeError("its fingerprint cannot be read");
  const { version = 1, history = [] } = soundObject<{ version?: unknown; history?: unknown }>(rest, "doc");
  soundCount(version as number, "version");
  if (!Array.isArray(history)) throw new TypeError("its history is not a list");
  return value as T;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
