/** What the warnings about keys look at: the values of each part, with the names they go by. */

export interface Leaf {
  readonly name: string | null;
  readonly value: unknown;
}

const MOST_FIELDS = 32;

/** The part itself, or what is in it, one level deep. */
export function leavesOf(part: unknown, name: string | null): readonly Leaf[] {
  if (typeof part !== "object" || part === null) return [{ name, value: part }];
  return ownEntries(part, MOST_FIELDS).map(([field, value]) => ({ name: Array.isArray(part) ? name : field, value }));
}

/** Own data fields; getters stay untouched, and a Proxy that throws has none. */
export function ownEntries(value: object, most: number = MOST_FIELDS): [string, unknown][] {
  try {
    const entries: [string, unknown][] = [];
    for (const name of Object.keys(value).slice(0, most)) {
      const descriptor = Object.getOwnPropertyDescriptor(value, name);
      if (descriptor !== undefined && "value" in descriptor) entries.push([name, descriptor.value]);
    }
    return entries;
  } catch {
    return [];
  }
}

/** A field's name may be data too (a map by e-mail address): only what looks like an identifier is told. */
export function safeName(name: string): string | null {
  return /^[A-Za-z_$][\w$-]{0,63}$/.test(name) ? name : null;
}

/** A name as names are compared: without separators, in lower case. */
export function plainName(name: string): string {
  return name.replace(/[_\-\s]/g, "").toLowerCase();
}
