/** Values in and out of the ledger: bounded, as JSON, sealed when asked. */
import { damagedRecord, isDamagedRecord, markDamaged } from "../core/damaged-record.ts";
import { isNevertwiceError, messageOf } from "../core/errors.ts";
import { isNoResult, whyNotKept } from "../core/kept-result.ts";
import { digestKeyId } from "../core/key/fingerprint.ts";
import { type Lost, lostAsJson } from "../core/lost-as-json.ts";
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
export type Bound = { readonly tenant: string; readonly key: string; readonly fence: number };

export class Payloads {
  readonly #sealer: Sealer | null;

  constructor(sealer: Sealer | null) {
    this.#sealer = sealer;
  }

  /**
   * `undefined` is stored as nothing at all, and comes back as `undefined`. A sealed draft of `undefined` is stored: one that
   * is missing was then removed. A draft that JSON would change is not stored: what is sent again must be what was sent first.
   */
  store(value: unknown, field: Field, maxBytes: number, bound: Bound): Payload | null {
    if (value === undefined) {
      const sealed = field === "draft" && this.#sealer !== null;
      return sealed ? this.#sealer.seal({ json: NOTHING }, { ...bound, field }) : null;
    }
    const lost = field === "draft" ? lostAsJson(value, "draft") : null;
    const payload = lost === null ? toPayload(value, maxBytes) : lossy(lost);
    return this.#sealer === null ? payload : this.#sealer.seal(payload, { ...bound, field });
  }

  load(record: LedgerRecord, field: Field): { value: unknown; omitted?: string } {
    const payload = record[field];
    if (payload === null) {
      const lost = field === "result" ? whyNotKept(record) : null;
      return { value: undefined, ...(lost !== null && { omitted: lost }) };
    }
    if (field === "result" && isNoResult(payload)) return { value: undefined };
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

function lossy({ path, what }: Lost): Payload {
  return { omitted: storableText(`${path} is ${what}, which JSON does not bring back as it was`) };
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

/**
 * What a repeat would get instead of this result; null: the same. The effect has happened, so it is a warning, and the caller is
 * better warned than surprised at the first replay. Only as many values are looked at as a call can spare.
 */
export function losesMeaningAsJson(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  try {
    return lossIn(value, "", { left: MOST_LOOKED_AT });
  } catch {
    // A Proxy may throw from any trap: the effect has happened, and a warning is not worth its record.
    return null;
  }
}

const MOST_LOOKED_AT = 64;
const EMPTY_AS_JSON: ReadonlySet<string> = new Set(["Response", "ReadableStream", "Map", "Set", "IncomingMessage"]);

function lossIn(value: object, path: string, budget: { left: number }): string | null {
  budget.left -= 1;
  if (budget.left < 0) return null;
  const name: unknown = value.constructor?.name;
  const where = path === "" ? "" : ` (in ${path.slice(1)})`;
  if (typeof name === "string" && EMPTY_AS_JSON.has(name))
    return `a ${name}${where}, which cannot be stored: a repeat would get an empty object`;
  if (value instanceof Date) return `a Date${where}: a repeat would get its ISO string`;
  if (ArrayBuffer.isView(value)) return `bytes${where}: a repeat would get a plain object`;
  // It says itself what it is as JSON.
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return null;
  for (const field in value) {
    const inner = (value as Record<string, unknown>)[field];
    const at = `${path}.${field}`;
    if (typeof inner === "number" && !Number.isFinite(inner))
      return `${inner} (in ${at.slice(1)}): a repeat would get null`;
    const loss = typeof inner === "object" && inner !== null ? lossIn(inner, at, budget) : null;
    if (loss !== null) return loss;
  }
  return null;
}
