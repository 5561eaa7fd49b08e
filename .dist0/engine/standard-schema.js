/** The part of the Standard Schema interface we use (standardschema.dev), by shape: no library is imported for it. */
import { NevertwiceError } from "../core/errors.js";
const SHOWN_ISSUES = 5;
export async function parseInput(schema, input, action) {
    let result;
    try {
        result = await schema["~standard"].validate(input);
    }
    catch (error) {
        throw new NevertwiceError("INVALID_INPUT", `${action}: its input schema threw an error (see cause). Nothing was run.`, { cause: error });
    }
    if (!result.issues)
        return result.value;
    // K6: where it does not fit, and not how: libraries quote the value they received in their messages.
    const paths = [...new Set(result.issues.map(pathOf))];
    const more = paths.length > SHOWN_ISSUES ? ` (and ${paths.length - SHOWN_ISSUES} more)` : "";
    throw new NevertwiceError("INVALID_INPUT", `${action}: the input does not fit its schema at: ${paths.slice(0, SHOWN_ISSUES).join(", ")}${more}. What is wrong there is in the error's cause. Nothing was run.`, {
        cause: result.issues,
    });
}
function pathOf(issue) {
    const path = (issue.path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
    return path.length === 0 ? "input" : path.join(".");
}
//# sourceMappingURL=standard-schema.js.map