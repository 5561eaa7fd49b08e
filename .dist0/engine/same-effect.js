/** Whether two successes under one key were one effect. */
const ID_FIELDS = ["id", "messageId", "message_id", "sid", "ts", "chargeId"];
/** The provider's own id decides where both results have one; otherwise the whole result does. None is no evidence. */
export function sameEffect(first, second) {
    if (first === undefined || second === undefined)
        return true;
    const one = idOf(first);
    const two = idOf(second);
    if (one !== undefined && two !== undefined)
        return one === two;
    try {
        return JSON.stringify(first) === JSON.stringify(second);
    }
    catch {
        return true;
    }
}
function idOf(result) {
    if (typeof result === "string")
        return result;
    if (typeof result !== "object" || result === null)
        return undefined;
    for (const field of ID_FIELDS) {
        const id = result[field];
        if (typeof id === "string" || typeof id === "number")
            return String(id);
    }
    return undefined;
}
//# sourceMappingURL=same-effect.js.map