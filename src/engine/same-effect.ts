/** Whether two successes under one key were one effect. */
import { idIn } from "../core/provider-id.ts";

/** The provider's own id decides where both results have one; otherwise the whole result does. None is no evidence. */
export function sameEffect(first: unknown, second: unknown): boolean {
  if (first === undefined || second === undefined) return true;
  const one = idIn(first);
  const two = idIn(second);
  if (one !== undefined && two !== undefined) return one === two;
  try {
    return JSON.stringify(first) === JSON.stringify(second);
  } catch {
    return true;
  }
}

/** Both have the provider's own id, and it is the same: surely one effect. */
export function hasSameId(first: unknown, second: unknown): boolean {
  const id = idIn(first);
  return id !== undefined && id === idIn(second);
}
