/**
 * Is there an order of the operations that keeps real time (what returned before another began comes first) and in which
 * each of them, one after the other, could have answered what it answered? The search of Wing and Gong, remembering which
 * sets of operations led to which state; histories are short, and the search is bounded.
 */

/** One operation as it was seen from outside, on a clock that every process shares. */
export interface Operation<State> {
  readonly name: string;
  readonly invoked: number;
  readonly returned: number;
  /** The state after it, or null where it cannot have answered so in this state. */
  apply(state: State): State | null;
}

const MAX_OPERATIONS = 30;
const MAX_STEPS = 1_000_000;

export function isLinearizable<State>(
  operations: readonly Operation<State>[],
  initial: State,
  nameOf: (state: State) => string,
): boolean {
  if (operations.length > MAX_OPERATIONS)
    throw new Error(`${operations.length} operations are too many for this search`);
  const all = 2 ** operations.length - 1;
  const dead = new Set<string>();
  let steps = 0;
  const search = (done: number, state: State): boolean => {
    if (done === all) return true;
    const here = `${done} ${nameOf(state)}`;
    if (dead.has(here)) return false;
    steps += 1;
    if (steps > MAX_STEPS) throw new Error("this history is too hard to search");
    // Who may come next: nobody that is left returned before it began.
    let earliest = Number.POSITIVE_INFINITY;
    for (const [i, one] of operations.entries()) if (!has(done, i)) earliest = Math.min(earliest, one.returned);
    for (const [i, one] of operations.entries()) {
      if (has(done, i) || one.invoked > earliest) continue;
      const next = one.apply(state);
      if (next !== null && search(done | (1 << i), next)) return true;
    }
    dead.add(here);
    return false;
  };
  return search(0, initial);
}

function has(set: number, i: number): boolean {
  return (set & (1 << i)) !== 0;
}

/** A history as a person reads it. */
export function shown<State>(operations: readonly Operation<State>[]): string {
  return operations
    .toSorted((a, b) => a.invoked - b.invoked)
    .map(({ name, invoked, returned }) => `${invoked}–${returned} ${name}`)
    .join("\n");
}
