/**
 * Which of the identical calls of one turn a call is: the first has the key that it has without `repeats`, the others the ordinal in
 * theirs. A turn that is made again, by a model that plans again or after a restart, begins with the first: its calls are the same
 * intents.
 */
import { configError } from "../core/errors.ts";

export interface ListedCall {
  readonly id?: string | undefined;
  readonly name: string;
  readonly args: unknown;
}

/** What tells calls of one turn from those of the next. `call`: the call's own id; one id has one ordinal, however often it runs. */
export type Turn =
  /** The same object, and the same step of it, for all calls of a turn. */
  | { readonly call: string; readonly turn: object; readonly step?: number | string }
  /** The model's own list of the turn's calls, which a resumed run has again. */
  | { readonly call: string; readonly calls: readonly ListedCall[] }
  /**
   * Where nothing tells a turn: the calls under way together on one connection, since a model makes its next turn when all answers of
   * this one are there. `gone`: its client has stopped waiting, so that the next identical call is made in its place.
   */
  | { readonly call: string; readonly together: string; gone?(): boolean };

/** `true`: as many as a turn is likely to have. */
const GENEROUS = 100;
export const MOST_REPEATS = 1_000;
// Of one object: an earlier step has ended when there are others.
const MOST_STEPS = 16;

/** How many identical calls of one turn may run; null: one, as without the option. */
export function repeatsOf(repeats: number | true | undefined, where: string): number | null {
  if (repeats === undefined) return null;
  if (repeats === true) return GENEROUS;
  if (Number.isInteger(repeats) && repeats >= 1 && repeats <= MOST_REPEATS) return repeats === 1 ? null : repeats;
  throw configError(
    `${where}: repeats is ${JSON.stringify(repeats) ?? String(repeats)}; it takes how many identical calls of one turn may run (a whole number from 1 to ${MOST_REPEATS}), or true.`,
  );
}

export interface Numbered {
  readonly ordinal: number;
  /** The call has ended. */
  readonly leave?: () => void;
}

/** How a call's key is made, of the arguments as the model wrote them. */
type KeyOf = (args: unknown) => Promise<string>;

interface Seen {
  readonly call: string;
  readonly ordinal: number;
  readonly gone: (() => boolean) | undefined;
  replaced: boolean;
}

/** The calls of one turn, by key. */
type Counts = Map<string, Seen[]>;

interface Together {
  readonly counts: Counts;
  underWay: number;
}

export class Turns {
  readonly #byObject = new WeakMap<object, Map<number | string, Counts>>();
  readonly #together = new Map<string, Together>();

  /** `key`: as a first call has it. `tool`: the name it has in a list of calls. */
  async of(turn: Turn, key: string, most: number, tool: string, keyOf: KeyOf): Promise<Numbered> {
    if ("calls" in turn) return { ordinal: Math.min(await placeIn(turn, tool, key, keyOf), most) };
    if ("turn" in turn) return { ordinal: ordinalIn(this.#counts(turn.turn, turn.step ?? 0), turn, key, most) };
    const name = turn.together;
    const group = this.#together.get(name) ?? { counts: new Map(), underWay: 0 };
    this.#together.set(name, group);
    group.underWay += 1;
    const leave = () => {
      group.underWay -= 1;
      if (group.underWay === 0) this.#together.delete(name);
    };
    return { ordinal: ordinalIn(group.counts, turn, key, most), leave };
  }

  #counts(turn: object, step: number | string): Counts {
    const steps = this.#byObject.get(turn) ?? new Map<number | string, Counts>();
    this.#byObject.set(turn, steps);
    const known = steps.get(step);
    if (known !== undefined) return known;
    const counts: Counts = new Map();
    steps.set(step, counts);
    const [oldest] = steps.keys();
    if (steps.size > MOST_STEPS && oldest !== undefined) steps.delete(oldest);
    return counts;
  }
}

function ordinalIn(counts: Counts, turn: Turn & { gone?(): boolean }, key: string, most: number): number {
  const seen = counts.get(key) ?? [];
  counts.set(key, seen);
  const own = seen.find(({ call }) => call === turn.call);
  if (own !== undefined) return own.ordinal;
  const left = seen.find((one) => !one.replaced && one.gone?.() === true);
  if (left !== undefined) left.replaced = true;
  const ordinal = left?.ordinal ?? Math.min(new Set(seen.map((one) => one.ordinal)).size + 1, most);
  // A call that is not remembered gets the last ordinal again.
  if (seen.length < 2 * MOST_REPEATS)
    seen.push({ call: turn.call, ordinal, gone: turn.gone?.bind(turn), replaced: false });
  return ordinal;
}

async function placeIn(
  { call, calls }: { readonly call: string; readonly calls: readonly ListedCall[] },
  tool: string,
  key: string,
  keyOf: KeyOf,
): Promise<number> {
  const named = calls.filter(({ name }) => name === tool).slice(0, 2 * MOST_REPEATS);
  const own = named.findIndex(({ id }) => id === call);
  if (own <= 0) return 1;
  const keys = await Promise.all(named.slice(0, own + 1).map(({ args }) => keyOf(args).catch(() => null)));
  const mine = keys[own] ?? key;
  return keys.filter((one) => one === mine).length || 1;
}
