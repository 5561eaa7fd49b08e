/** Whether two successes under one key were one effect. */

const ID_FIELDS = ["id", "messageId", "message_id", "sid", "ts", "chargeId"] as const;

/** The provider's own id decides where both results have one; otherwise the whole result does. None is no evidence. */
export function sameEffect(first: unknown, second: unknown): boolean {
  if (first === undefined || second === undefined) return true;
  const one = idOf(first);
  const two = idOf(second);
  if (one !== undefined && two !== undefined) return one === two;
  try {
    return JSON.stringify(first) === JSON.stringify(second);
  } catch {
    return true;
  }
}

/** Both have the provider's own id, and it is the same: surely one effect. */
export function hasSameId(first: unknown, second: unknown): boolean {
  const id = idOf(first);
  return id !== undefined && id === idOf(second);
}

function idOf(result: unknown): string | undefined {
  if (typeof result === "string") return result;
  if (typeof result !== "object" || result === null) return undefined;
  for (const field of ID_FIELDS) {
    const id = (result as Record<string, unknown>)[field];
    if (typeof id === "string" || typeof id === "number") return String(id);
  }
  return undefined;
}
