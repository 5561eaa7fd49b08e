/**
 * A key as bytes: 32 for a real one, a quarter less to store and to log than its 56 characters (540 → 474 bytes of WAL
 * a guard). Any other text (a test's "nt1_a") is kept as a zero byte and UTF-8, at a length that is never 32.
 */
import { base32hex, isKey } from "../core/key.js";
const PREFIX = "nt1_";
const DIGEST_BYTES = 32;
const KEY_CHARS = 56;
// The value of each character of base32hex; 32 and more: it is none.
const VALUES = Array.from({ length: 128 }, (_, code) => {
    const value = "0123456789abcdefghijklmnopqrstuv".indexOf(String.fromCharCode(code));
    return value < 0 ? 1 << 25 : value;
});
/** Hexadecimal, as SQL takes it. */
export function keyHex(key) {
    const digest = key.length === KEY_CHARS && key.startsWith(PREFIX) ? digestHex(key) : null;
    if (digest !== null)
        return digest;
    const text = `00${Buffer.from(key).toString("hex")}`;
    return text.length === 2 * DIGEST_BYTES ? `${text}00` : text;
}
/** Four characters are 20 bits, five hexadecimal digits: no bytes in between, since this runs in every call. */
function digestHex(key) {
    let hex = "";
    for (let at = PREFIX.length; at < KEY_CHARS; at += 4) {
        const bits = (valueAt(key, at) << 15) | (valueAt(key, at + 1) << 10) | (valueAt(key, at + 2) << 5) | valueAt(key, at + 3);
        if (bits > 0xfffff || bits < 0)
            return null;
        hex += (bits + 0x100000).toString(16).slice(1);
    }
    // 52 characters hold 4 bits more than a digest: they are zero in a key.
    return hex.endsWith("0") ? hex.slice(0, -1) : null;
}
function valueAt(key, at) {
    return VALUES[key.charCodeAt(at)] ?? 1 << 25;
}
export function keyFromHex(hex) {
    const bytes = Buffer.from(hex, "hex");
    if (bytes.length === DIGEST_BYTES)
        return PREFIX + base32hex(bytes);
    return bytes.subarray(1, bytes.at(-1) === 0 ? -1 : undefined).toString();
}
export function keyRange(prefix) {
    const bytes = Buffer.concat([Buffer.of(0), Buffer.from(prefix)]);
    const low = bytes.toString("hex");
    // UTF-8 has no byte 255: the last one can always be raised by one.
    bytes[bytes.length - 1] = bytes.at(-1) + 1;
    return { digests: digestRange(prefix), texts: { low, end: bytes.toString("hex") } };
}
function digestRange(prefix) {
    if (PREFIX.startsWith(prefix))
        return { low: "00".repeat(DIGEST_BYTES), high: "ff".repeat(DIGEST_BYTES) };
    if (!/^nt1_[0-9a-v]{0,52}$/.test(prefix))
        return null;
    const [low, high] = [prefix.padEnd(56, "0"), prefix.padEnd(55, "v").padEnd(56, "g")];
    return isKey(low) && isKey(high) ? { low: keyHex(low), high: keyHex(high) } : null;
}
//# sourceMappingURL=postgres-key.js.map