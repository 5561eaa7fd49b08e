/**
 * A record that was made under a former key has the digests of its input as it came. Its key may take the input in a normal
 * form now (`email`, `text` …): then "Ann@Example.com" in the record and "ann@example.com" in the call are one input.
 */
import { alikeTo, canCompare, differing, type InputPrint, toFingerprint } from "../core/key/fingerprint.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Call } from "./call.ts";

interface Formed {
  readonly text: string;
  readonly print: InputPrint;
}

/**
 * `formed`: the key's text and the digests of an input, by the present definition. The record's own input decides, and not the
 * key that led to the record: a former key may have taken several inputs for one.
 */
export function inOtherForm(
  { definition, keyed, defaults }: Call,
  print: InputPrint,
  record: LedgerRecord,
  formed: (input: unknown) => Formed,
): InputPrint {
  const { fingerprint } = record;
  if (record.input === null || !canCompare(fingerprint, print)) return print;
  try {
    const stored = defaults?.payloads?.load(record, "input");
    if (stored === undefined || stored.omitted !== undefined) return print;
    const now = formed(parsed(definition.schema, stored.value));
    const { free } = definition;
    if (now.text !== keyed || differing(toFingerprint(now.print), print, free).guarded.length > 0) return print;
    return alikeTo(print, fingerprint, differing(fingerprint, print, free).guarded);
  } catch {
    // Its input cannot be read, or is none for the present definition: compared by its digests alone.
    return print;
  }
}

function parsed(schema: Call["definition"]["schema"], value: unknown): unknown {
  if (schema === undefined) return value;
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    result.catch(() => {});
    throw new Error("an asynchronous schema");
  }
  if (result.issues) throw new Error("not an input any more");
  return result.value;
}
