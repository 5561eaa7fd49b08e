/** A result for one caller of several: what it changes in it, no other sees. */

/** Objects and lists are copied. What is no plain data (an instance of a class, a Date, bytes) has no copy that is sure to be the same. */
export function ownCopy(value: unknown): unknown {
  try {
    return copied(value, new Map());
  } catch {
    // A Proxy may throw from any trap, and too deep is too deep.
    return value;
  }
}

function copied(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value !== "object" || value === null) return value;
  const known = seen.get(value);
  if (known !== undefined) return known;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isList = Array.isArray(value);
  if (!isList && prototype !== Object.prototype && prototype !== null) return value;
  const copy: object = isList ? [] : (Object.create(prototype as object | null) as object);
  seen.set(value, copy);
  for (const [name, inner] of Object.entries(value))
    Object.defineProperty(copy, name, {
      value: copied(inner, seen),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  return copy;
}
