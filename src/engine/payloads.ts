/** Values in and out of the ledger: bounded, as JSON, sealed when asked. */
import { damagedRecord, isDamagedRecord, markDamaged } from "../core/damaged-record.ts";
import { isNevertwiceError, messageOf } from "../core/errors.ts";
import { digestKeyId } from "../core/fingerprint.ts";
import type { LedgerRecord, Payload } from "../core/record.ts";
import { lacking, type Sealer } from "../core/seal.ts";
import { storableText } from "../core/storable-text.ts";

export interface PayloadLimits {
  readonly inputBytes: number;
  readonly resultBytes: number;
}

export const DEFAULT_LIMITS: PayloadLimits = { inputBytes: 256 * 1024, resultBytes: 1024 * 1024 };

// No JSON: it is only ever stored sealed.
const NOTHING = "";

type Field = "input" | "draft" | "result";
type Bound = { readonly tenant: string; readonly key: string; readonly fence: number };

export class Payloads {
  readonly #sealer: Sealer | null;

  constructor(sealer: Sealer | null) {
    this.#sealer = sealer;
  }

  /**
   * `undefined` is stored as nothing at all, and comes back as `undefined`. A sealed draft of `undefined` is stored: one that
   * is missing was then removed.
   */
  store(value: unknown, field: Field, maxBytes: number, bound: Bound): Payload | null {
    if (value === undefined) {
      const sealed = field === "draft" && this.#sealer !== null;
      return sealed ? this.#sealer.seal({ json: NOTHING }, { ...bound, field }) : null;
    }
    const payload = toPayload(value, maxBytes);
    return this.#sealer === null ? payload : this.#sealer.seal(payload, { ...bound, field });
  }

  load(record: LedgerRecord, field: Field): { value: unknown; omitted?: string } {
    const payload = record[field];
    if (payload === null) return { value: undefined };
    try {
      return this.#read(record, field, payload);
    } catch (error) {
      throw unreadable(record, field, error);
    }
  }

  /** `expected`: the action prepares one, so that a sealed one was removed if it is not there. */
  loadDraft(record: LedgerRecord, expected: boolean): { value: unknown; omitted?: string } {
    if (expected && record.draft === null && this.#sealer !== null)
      return { value: undefined, omitted: "it is missing" };
    return this.load(record, "draft");
  }

  /** What this process lacks to open the record's input and draft, and others may have; null: nothing. */
  lacks({ input, draft, fingerprint }: LedgerRecord): string | null {
    const digestKey = input === null ? digestKeyId(fingerprint) : null;
    if (digestKey !== null && !this.#sealer?.digestKeys.some(({ id }) => id === digestKey))
      return `the encryption key ${digestKey}`;
    const one = (payload: Payload) => (this.#sealer === null ? lacking(payload) : this.#sealer.lacks(payload));
    return (input && one(input)) ?? (draft && one(draft));
  }

  #read(record: LedgerRecord, field: Field, payload: Payload): { value: unknown; omitted?: string } {
    const open =
      this.#sealer === null ? payload : this.#sealer.open(payload, { tenant: record.tenant, key: record.key, field });
    if ("json" in open) return { value: open.json === NOTHING ? undefined : JSON.parse(open.json) };
    if ("omitted" in open) return { value: undefined, omitted: open.omitted };
    return { value: undefined, omitted: "it is sealed, and no key was given: pass the same `encrypt` that sealed it" };
  }
}

/** A payload that does not open, or is no JSON, is this record's trouble and nobody else's. */
function unreadable({ key }: LedgerRecord, field: Field, cause: unknown): unknown {
  if (isDamagedRecord(cause)) return cause;
  if (isNevertwiceError(cause)) return markDamaged(cause);
  return damagedRecord({ key, where: "(its stored payload)", what: `its ${field} is not JSON`, cause });
}

function toPayload(value: unknown, maxBytes: number): Payload {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    return { omitted: storableText(`it cannot be written as JSON (${messageOf(error)})`) };
  }
  if (json === undefined) return { omitted: `a ${typeof value} cannot be written as JSON` };
  if (json.length > maxBytes || (json.length > maxBytes / 3 && Buffer.byteLength(json) > maxBytes)) {
    return { omitted: `it is larger than ${maxBytes} bytes` };
  }
  return { json };
}

/** Results that turn into "{}" on the way through JSON; the caller is better warned than surprised at the first replay. */
export function losesMeaningAsJson(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  try {
    const name: unknown = value.constructor?.name;
    return typeof name === "string" && EMPTY_AS_JSON.has(name) ? name : null;
  } catch {
    // A Proxy may throw from any trap: the effect has happened, and a warning is not worth its record.
    return null;
  }
}

const EMPTY_AS_JSON: ReadonlySet<string> = new Set(["Response", "ReadableStream", "Map", "Set", "IncomingMessage"]);
