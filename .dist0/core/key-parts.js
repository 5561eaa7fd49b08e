import { prepareInput } from "./canonical.js";
import { isNevertwiceError, NevertwiceError } from "./errors.js";
import { emptiness, emptyPart } from "./key.js";
/** The parts of an input. Without a key option there is one: the input without its free fields. */
export function keyParts(option, input, free, action) {
    if (option === undefined)
        return [wholeInput(input, free, action)];
    if (typeof option === "function")
        return partsOfFunction(option, input, action);
    if (!Array.isArray(option))
        throw invalidKey(action, "`key` must be a list of field names or a function of the input.");
    return partsOfFields(option, input, action);
}
function wholeInput(input, free, action) {
    // Kind first: a Date or an undefined field is welcome in an input, so the default key must not refuse it either.
    const part = input === undefined ? undefined : prepareInput(input, "input", free);
    const empty = emptiness(part);
    if (empty === null)
        return part;
    throw invalidKey(action, `there is no \`key\` and the input is ${empty}${free.length > 0 ? " without its free fields" : ""}. ` +
        "Every such call would share one key: say with `key` what makes an intent different from the next.");
}
function partsOfFields(names, input, action) {
    if (names.length === 0)
        throw invalidKey(action, "`key` names no field. Every call would share one key: name at least one.");
    if (typeof input !== "object" || input === null) {
        throw invalidKey(action, "`key` names fields, but the input is not an object. Use a key function, or pass an object.");
    }
    return names.map((name) => {
        const descriptor = Object.getOwnPropertyDescriptor(input, name);
        if (descriptor === undefined || ("value" in descriptor && descriptor.value === undefined)) {
            throw invalidKey(action, `the input has no field "${name}", which \`key\` names. Pass it, or correct \`key\`.`);
        }
        if (!("value" in descriptor)) {
            throw invalidKey(action, `the field "${name}" is a getter, which may answer differently each time. Copy its value into a plain field.`);
        }
        const empty = emptiness(descriptor.value);
        if (empty !== null)
            throw emptyPart(`action "${action}", key field "${name}"`, empty);
        return descriptor.value;
    });
}
function partsOfFunction(option, input, action) {
    const parts = callKeyFunction(option, input, action);
    if (Array.isArray(parts))
        return parts;
    if (isThenable(parts)) {
        // Nobody will await it: its rejection must not end the process as an unhandled one.
        Promise.resolve(parts).catch(() => { });
        throw invalidKey(action, "the key function is async. A key is made of the input alone: fetch what it needs before the call and pass it in the input.");
    }
    const what = emptiness(parts) ?? `a ${typeof parts}`;
    throw invalidKey(action, `the key function returned ${what}, not an array. Return the parts in an array, e.g. (i) => [i.leadId].`);
}
function callKeyFunction(option, input, action) {
    try {
        return option(input);
    }
    catch (error) {
        // Our own messages hold no values and say what to do; another error's message may hold anything, so it stays a cause.
        const what = isNevertwiceError(error)
            ? `the key function threw: ${error.message}`
            : "the key function threw an error (see cause). It must return the parts for every valid input.";
        throw invalidKey(action, what, error);
    }
}
function isThenable(value) {
    if (typeof value !== "object" || value === null)
        return false;
    return typeof value.then === "function";
}
function invalidKey(action, message, cause) {
    return new NevertwiceError("INVALID_KEY", `action "${action}": ${message}`, { cause });
}
//# sourceMappingURL=key-parts.js.map