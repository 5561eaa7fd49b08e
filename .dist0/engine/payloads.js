/** Values in and out of the ledger: bounded, as JSON, sealed when asked. */
import { messageOf } from "../core/errors.js";
export const DEFAULT_LIMITS = { inputBytes: 256 * 1024, resultBytes: 1024 * 1024 };
export class Payloads {
    #sealer;
    constructor(sealer) {
        this.#sealer = sealer;
    }
    /** `undefined` is stored as nothing at all, and comes back as `undefined`. */
    store(value, field, maxBytes, bound) {
        if (value === undefined)
            return null;
        const payload = toPayload(value, maxBytes);
        return this.#sealer === null ? payload : this.#sealer.seal(payload, { ...bound, field });
    }
    load(record, field) {
        const payload = record[field];
        if (payload === null)
            return { value: undefined };
        const open = this.#sealer === null ? payload : this.#sealer.open(payload, { tenant: record.tenant, key: record.key, field });
        if ("json" in open)
            return { value: JSON.parse(open.json) };
        if ("omitted" in open)
            return { value: undefined, omitted: open.omitted };
        return { value: undefined, omitted: "it is sealed, and no key was given: pass the same `encrypt` that sealed it" };
    }
}
function toPayload(value, maxBytes) {
    let json;
    try {
        json = JSON.stringify(value);
    }
    catch (error) {
        return { omitted: `it cannot be written as JSON (${messageOf(error)})` };
    }
    if (json === undefined)
        return { omitted: `a ${typeof value} cannot be written as JSON` };
    if (json.length > maxBytes || (json.length > maxBytes / 3 && Buffer.byteLength(json) > maxBytes)) {
        return { omitted: `it is larger than ${maxBytes} bytes` };
    }
    return { json };
}
/** Results that turn into "{}" on the way through JSON; the caller is better warned than surprised at the first replay. */
export function losesMeaningAsJson(value) {
    if (typeof value !== "object" || value === null)
        return null;
    try {
        const name = value.constructor?.name;
        return typeof name === "string" && EMPTY_AS_JSON.has(name) ? name : null;
    }
    catch {
        // A Proxy may throw from any trap: the effect has happened, and a warning is not worth its record.
        return null;
    }
}
const EMPTY_AS_JSON = new Set(["Response", "ReadableStream", "Map", "Set", "IncomingMessage"]);
//# sourceMappingURL=payloads.js.map