import { canonicalFields, canonicalInput } from "./canonical.js";
import { digest } from "./key.js";
/** Stands for a free field that cannot be compared (a function, a stream, a BigInt). No digest looks like it. */
const NOT_COMPARABLE = "?";
const NOT_AN_OBJECT = "";
export function printInput(input, free, secret) {
    const fields = inputFields(input, free);
    let guardedText = "";
    let freeText = "";
    for (const [name, text] of fields) {
        const entry = `${JSON.stringify(name)}:${text ?? NOT_COMPARABLE},`;
        if (free.includes(name))
            freeText += entry;
        else
            guardedText += entry;
    }
    // The texts are kept, not the input: `run` may change the input before the fields are asked for.
    let digests;
    return {
        guarded: shortDigest(guardedText, secret),
        free: freeText === "" ? null : shortDigest(freeText, secret),
        fields() {
            digests ??= fieldDigests(fields, secret);
            return digests;
        },
    };
}
function inputFields(input, free) {
    if (input === undefined)
        return [];
    return canonicalFields(input, "input", free) ?? [[NOT_AN_OBJECT, canonicalInput(input, "input")]];
}
function fieldDigests(fields, secret) {
    // fromEntries defines, and does not assign: a field named __proto__ stays a field.
    return Object.fromEntries(fields.map(([name, text]) => [name, text === null ? NOT_COMPARABLE : shortDigest(text, secret)]));
}
/** 96 bits: these digests only tell two inputs of one key apart, and there is one set in every record. */
function shortDigest(text, secret) {
    return digest(text, secret).toString("base64url", 0, 12);
}
export function toFingerprint(print) {
    return { guarded: print.guarded, free: print.free, fields: print.fields() };
}
/**
 * The top-level fields that differ, by the present free list: guarded ones make a conflict, free ones are only told.
 * The digests of single fields decide, because a release may have moved a field between the two lists since.
 */
export function differing(stored, print, free) {
    if (stored.guarded === print.guarded && stored.free === print.free)
        return { guarded: [], free: [] };
    const fields = print.fields();
    const names = new Set([...Object.keys(stored.fields), ...Object.keys(fields)]);
    const differ = [...names].filter((name) => ownDigest(stored.fields, name) !== ownDigest(fields, name)).sort();
    return {
        guarded: differ.filter((name) => !free.includes(name)).map(fieldLabel),
        free: differ.filter((name) => free.includes(name)),
    };
}
/** False when a free field could not be compared (a function, a stream, a BigInt): equal digests then prove nothing. */
export function isComparable({ fields }) {
    return !Object.values(fields).includes(NOT_COMPARABLE);
}
function ownDigest(fields, name) {
    return Object.hasOwn(fields, name) ? fields[name] : undefined;
}
function fieldLabel(name) {
    return name === NOT_AN_OBJECT ? "(input)" : name;
}
//# sourceMappingURL=fingerprint.js.map