// The one way to wait here: ask again until the answer is truthy, and give up with the last reason.
const EVERY_MS = 20;

/**
 * @template T
 * @param {() => T | Promise<T>} check throwing counts as "not yet"
 * @param {{ what: string, withinMs?: number }} options
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(check, { what, withinMs = 20_000 }) {
  const end = performance.now() + withinMs;
  let reason = "";
  for (;;) {
    try {
      const answer = await check();
      if (answer) return answer;
    } catch (error) {
      if (error instanceof GiveUp) throw error;
      reason = `: ${error.message}`;
    }
    if (performance.now() > end) throw new Error(`${what}: not within ${withinMs} ms${reason}`);
    await new Promise((resume) => setTimeout(resume, EVERY_MS));
  }
}

/** Thrown by a check that knows that waiting longer is pointless. */
export class GiveUp extends Error {}
