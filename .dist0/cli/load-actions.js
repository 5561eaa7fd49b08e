var __rewriteRelativeImportExtension = (this && this.__rewriteRelativeImportExtension) || function (path, preserveJsx) {
    if (typeof path === "string" && /^\.\.?\//.test(path)) {
        return path.replace(/\.(tsx)$|((?:\.d)?)((?:\.[^./]+?)?)\.([cm]?)ts$/i, function (m, tsx, d, ext, cm) {
            return tsx ? preserveJsx ? ".jsx" : ".js" : d && (!ext || !cm) ? m : (d + ext + "." + cm.toLowerCase() + "js");
        });
    }
    return path;
};
/** The user's own module, for what only the action's code can do: derive a key and have the effect. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { messageOf } from "../core/errors.js";
import { ProblemError, UsageError } from "./exit.js";
import { oneLine } from "./text.js";
export async function loadAction(file, name, cwd) {
    const actions = actionsOf(await importModule(file, cwd));
    const found = actions.find(({ actionName }) => actionName === name);
    if (found !== undefined)
        return found;
    const names = [...new Set(actions.map(({ actionName }) => oneLine(actionName)))];
    throw new UsageError(names.length === 0
        ? `${file} exports no action. Export what nt.action() returned: export const ${identifier(name)} = nt.action(${JSON.stringify(name)}, …)`
        : `${file} exports no action named ${JSON.stringify(name)}; it has: ${names.join(", ")}.`);
}
async function importModule(file, cwd) {
    const path = resolve(cwd, file);
    if (!existsSync(path))
        throw new UsageError(`--actions ${file}: there is no such file (looked for ${path}).`);
    try {
        return (await import(__rewriteRelativeImportExtension(pathToFileURL(path).href)));
    }
    catch (error) {
        const code = error?.code;
        if (code === "ERR_UNKNOWN_FILE_EXTENSION") {
            throw new UsageError(`--actions ${file}: this Node (${process.version}) cannot load TypeScript. Compile it and name the .js file, or run the command under tsx: npx tsx node_modules/nevertwice/dist/cli/main.js resend …`, { cause: error });
        }
        throw new ProblemError(`--actions ${file} could not be loaded: ${messageOf(error)}. Nothing was sent.`, {
            cause: error,
        });
    }
}
/** Exported directly, or one level down in an exported object or array. */
function actionsOf(exported) {
    return Object.values(exported).flatMap((value) => {
        if (isAction(value))
            return [value];
        const nested = Array.isArray(value) ? value : isPlainObject(value) ? Object.values(value) : [];
        return nested.filter(isAction);
    });
}
/** By shape: the module may have a copy of nevertwice of its own. */
function isAction(value) {
    const action = value;
    return typeof value === "function" && typeof action.actionName === "string" && typeof action.resend === "function";
}
function isPlainObject(value) {
    if (typeof value !== "object" || value === null)
        return false;
    const prototype = Object.getPrototypeOf(value);
    return prototype === Object.prototype || prototype === null;
}
/** send-followup → sendFollowup: a name an export can have. */
export function identifier(name) {
    const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
    const camel = words.map((word, i) => (i === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join("");
    return /^[A-Za-z]/.test(camel) ? camel : "action";
}
//# sourceMappingURL=load-actions.js.map