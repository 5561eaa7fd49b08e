/**
 * `encrypt`: stored inputs, drafts and results sealed with AES-256-GCM and bound to where they belong, so that whoever
 * can write to the store can neither read them nor move one record's result to another.
 *
 * Form: ntseal1.<key id>.<fence>.<nonce>.<ciphertext + tag>, the last two base64url. Not hidden: how long a value is.
 */
import { createCipheriv, createDecipheriv, createHash, createSecretKey, randomBytes, } from "node:crypto";
import { configError, NevertwiceError } from "./errors.js";
const VERSION = "ntseal1";
const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
// 96 random bits: safe for about 2^32 seals per key (NIST SP 800-38D), which is years at a hundred per second.
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export function sealer(option) {
    const given = typeof option === "string" || option instanceof Uint8Array ? [option] : option;
    if (!Array.isArray(given) || given.length === 0)
        throw badKey("encrypt: no key was given");
    const keys = given.map((key, index) => namedKey(key, given.length === 1 ? "encrypt" : `encrypt[${index}]`));
    const sealing = keys[0];
    return {
        seal: (payload, bound) => ("json" in payload ? sealText(payload.json, bound, sealing) : payload),
        // Plain text was written before `encrypt` was switched on, and stays readable.
        open: (payload, bound) => ("sealed" in payload ? openSealed(payload.sealed, bound, keys) : payload),
    };
}
function namedKey(key, where) {
    const bytes = typeof key === "string" ? decodeKey(key) : key;
    if (!(bytes instanceof Uint8Array))
        throw badKey(`${where}: the key is neither bytes nor base64 or hex text`);
    if (bytes.length !== KEY_BYTES)
        throw badKey(`${where}: the key has ${bytes.length} bytes instead of ${KEY_BYTES}`);
    // A domain prefix of its own, so that the id can never equal a digest of the key made for another purpose.
    const id = createHash("sha256").update("nevertwice/seal/key-id\0").update(bytes).digest("hex").slice(0, 8);
    return { id, secret: createSecretKey(bytes) };
}
/** Strict, because Buffer.from drops what it does not understand, and a mistyped key would become another key. */
function decodeKey(text) {
    const trimmed = text.trim();
    if (/^[0-9a-f]{64}$/i.test(trimmed))
        return Buffer.from(trimmed, "hex");
    return /^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/.test(trimmed) ? Buffer.from(trimmed, "base64") : undefined;
}
function badKey(problem) {
    return configError(`${problem}. Make one with: node -e "console.log(require('node:crypto').randomBytes(32).toString('base64'))"`);
}
function sealText(text, bound, key) {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, key.secret, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associatedData(bound, key.id));
    const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return { sealed: [VERSION, key.id, bound.fence, nonce.toString("base64url"), body.toString("base64url")].join(".") };
}
/** As JSON, so that no tenant or key can be written to look like another pair; the fence is authenticated with the rest. */
function associatedData(bound, keyId) {
    return Buffer.from(JSON.stringify([VERSION, keyId, bound.tenant, bound.key, bound.fence, bound.field]), "utf8");
}
function openSealed(sealed, bound, keys) {
    const parts = parse(sealed);
    if (!parts)
        throw altered(bound);
    const candidates = keys.filter((key) => key.id === parts.keyId);
    if (candidates.length === 0)
        throw missingKey(parts.keyId, bound, keys);
    for (const key of candidates) {
        const text = decrypt(parts, { ...bound, fence: parts.fence }, key);
        if (text !== undefined)
            return { json: text };
    }
    throw altered(bound);
}
function parse(sealed) {
    const match = /^ntseal1\.([0-9a-f]{8})\.(0|[1-9]\d{0,15})\.([\w-]+)\.([\w-]+)$/.exec(sealed);
    if (!match)
        return undefined;
    const nonce = decodeExact(match[3]);
    const body = decodeExact(match[4]);
    if (nonce?.length !== NONCE_BYTES || !body || body.length < TAG_BYTES)
        return undefined;
    return { keyId: match[1], fence: Number(match[2]), nonce, body };
}
/** The last base64 character has spare bits: without the comparison several texts would open to the same value. */
function decodeExact(text) {
    const bytes = Buffer.from(text, "base64url");
    return bytes.toString("base64url") === text ? bytes : undefined;
}
function decrypt(parts, bound, key) {
    const split = parts.body.length - TAG_BYTES;
    const decipher = createDecipheriv(ALGORITHM, key.secret, parts.nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(associatedData(bound, key.id));
    decipher.setAuthTag(parts.body.subarray(split));
    const start = decipher.update(parts.body.subarray(0, split));
    try {
        return Buffer.concat([start, decipher.final()]).toString("utf8");
    }
    catch {
        return undefined;
    }
}
function missingKey(id, bound, keys) {
    const known = keys.map((key) => key.id).join(", ");
    return new NevertwiceError("CONFIG", `encrypt: the stored ${bound.field} was sealed with key ${id}, and only ${known} is given. Add that key after the present one: encrypt: [presentKey, olderKey].`, { key: bound.key });
}
function altered(bound) {
    return new NevertwiceError("STORE_UNAVAILABLE", `The sealed ${bound.field} in the store was altered or belongs to another record. Nothing was run. Restore the record from a backup, or settle it with resolve().`, { key: bound.key });
}
//# sourceMappingURL=seal.js.map