/** An action as the engine knows it: the user's options, checked and resolved once. */
import { configError } from "../core/errors.js";
import { resolvePolicy } from "../core/policy.js";
const KNOWN = new Set("input key free keep lease timeout wait doubt retry prepare run mark classify whenStoreDown".split(" "));
export function defineAction(name, options) {
    const where = `action ${JSON.stringify(name)}`;
    if (typeof name !== "string" || name.trim() === "" || name.length > 200) {
        throw configError(`an action's name must be a string of 1 to 200 characters that is not blank; got ${JSON.stringify(name)}.`);
    }
    if (typeof options !== "object" || options === null || typeof options.run !== "function") {
        throw configError(`${where}: run is missing. Give it the function that has the effect: { run: async (input, ctx) => … }.`);
    }
    for (const option of Object.keys(options)) {
        if (!KNOWN.has(option)) {
            throw configError(`${where}: there is no option ${JSON.stringify(option)}. The options are: ${[...KNOWN].join(", ")}.`);
        }
    }
    checkShapes(options, where);
    const doubt = options.doubt;
    return {
        name,
        policy: resolvePolicy(options, where),
        key: options.key,
        free: options.free ?? [],
        schema: options.input,
        manual: options.mark === "manual",
        prepare: options.prepare,
        run: options.run,
        probe: (typeof doubt === "object" ? doubt.probe : undefined),
        classify: options.classify,
    };
}
function checkShapes(options, where) {
    const { input, key, free, mark, prepare, classify } = options;
    if (input !== undefined && typeof input?.["~standard"]?.validate !== "function") {
        throw configError(`${where}: input is not a Standard Schema. Pass a schema of zod ≥ 3.24, valibot ≥ 1, arktype ≥ 2 or another that has "~standard".`);
    }
    if (key !== undefined && typeof key !== "function" && !isNameList(key)) {
        throw configError(`${where}: key takes a list of field names, such as ["leadId", "template"], or a function that returns a list of parts.`);
    }
    if (free !== undefined && !isNameList(free))
        throw configError(`${where}: free takes a list of field names.`);
    const both = Array.isArray(key) ? key.filter((name) => free?.includes(name)) : [];
    if (both.length > 0)
        throw configError(`${where}: ${both.join(", ")} cannot be in key and in free: a field that may change cannot name the intent.`);
    if (mark !== undefined && mark !== "auto" && mark !== "manual")
        throw configError(`${where}: mark takes "auto" or "manual".`);
    if (prepare !== undefined && typeof prepare !== "function")
        throw configError(`${where}: prepare must be a function.`);
    if (prepare !== undefined && mark === "manual") {
        throw configError(`${where}: prepare and mark: "manual" are two ways to say the same thing. Keep prepare, or call ctx.sent() in run.`);
    }
    if (classify !== undefined && typeof classify !== "function")
        throw configError(`${where}: classify must be a function.`);
}
function isNameList(value) {
    return Array.isArray(value) && value.every((name) => typeof name === "string" && name !== "");
}
//# sourceMappingURL=definition.js.map