/** Whether two successes under one key were one effect. */

const ID_FIELDS = ["id", "messageId", "message_id", "sid", "ts", "chargeId"] as const;

/** The provider's own id decides where both results have one; otherwise the whole result does. */
export function sameEffect(first: unknown, second: unknown): boolean {
  const one = idOf(first);
  const two = idOf(second);
  if (one !== undefined && two !== undefined) return one === two;
  return JSON.stringify(first) === JSON.stringify(second);
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
