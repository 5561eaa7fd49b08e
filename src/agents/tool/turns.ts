/**
 * Which of the identical calls of one turn a call is: the first has the key that it has without `repeats`, the others the ordinal in
 * theirs. A turn that is made again, by a model that plans again or after a restart, begins with the first: its calls are the same
 * intents.
 */
import { configError } from "../../core/errors.ts";

interface ListedCall {
  readonly id?: string | undefined;
  readonly name: string;
  readonly args: unknown;
}

/** `call`: the call's own id, or an object that only it has. One call has one ordinal, however often it is made. */
export type Turn =
  /** The turn's id, or an object that all of its calls have, and the step of it. */
  | { readonly call: unknown; readonly turn: string | object; readonly step?: number; gone?(): boolean }
  /** The model's own list of the turn's calls, which a resumed run has again. */
  | { readonly call: unknown; readonly calls: readonly ListedCall[] }
  /** Nothing tells a turn: the calls under way together on a connection. `gone`: the next identical call is made in its place. */
  | { readonly call: unknown; readonly together: object; gone?(): boolean };

/** `true`: as many as a turn is likely to have. */
const GENEROUS = 100;
const MOST_REPEATS = 1_000;
// Of one object: an earlier step has ended when there are others.
const MOST_STEPS = 16;
// The oldest are forgotten: their next call is the first again, and so runs nothing.
const MOST_TURNS = 1_000;
const MOST_KEYS = 10_000;

/** How many identical calls of one turn may run; null: one, as without the option. */
export function repeatsOf(repeats: unknown, where: string): number | null {
  if (repeats === undefined || repeats === 1) return null;
  if (repeats === true) return GENEROUS;
  if (Number.isInteger(repeats) && (repeats as number) > 1 && (repeats as number) <= MOST_REPEATS)
    return repeats as number;
  throw configError(
    `${where}: repeats is ${JSON.stringify(repeats) ?? String(repeats)}; it takes how many identical calls of one turn may run (a whole number from 1 to ${MOST_REPEATS}), or true.`,
  );
}

interface Numbered {
  readonly ordinal: number;
  /** The call has ended. */
  readonly leave?: () => void;
}

/** What identical calls have in common, of the arguments as the model wrote them. */
type SameOf = (args: unknown) => Promise<string>;

interface Seen {
  readonly call: unknown;
  readonly ordinal: number;
  readonly gone: (() => boolean) | undefined;
  replaced: boolean;
}

/** The calls of one turn, by what identical ones have in common. */
type Counts = Map<string, Seen[]>;

interface Together {
  readonly counts: Counts;
  underWay: number;
}

export class Turns {
  readonly #named = new Map<string, Counts>();
  readonly #byObject = new WeakMap<object, Map<number, Counts>>();
  readonly #together = new WeakMap<object, Together>();

  /** `same`: what it has in common with identical ones. `tool`: the name it has in a list of calls. */
  async of(turn: Turn, same: string, most: number, tool: string, sameOf: SameOf): Promise<Numbered> {
    if ("calls" in turn) return { ordinal: Math.min(await placeIn(turn, tool, same, sameOf), most) };
    if ("turn" in turn) return { ordinal: ordinalIn(this.#counts(turn.turn, turn.step ?? 0), turn, same, most) };
    const group = this.#together.get(turn.together) ?? { counts: new Map(), underWay: 0 };
    this.#together.set(turn.together, group);
    group.underWay += 1;
    const leave = () => {
      group.underWay -= 1;
      if (group.underWay === 0) leaveTheGone(group.counts);
    };
    return { ordinal: ordinalIn(group.counts, turn, same, most), leave };
  }

  #counts(turn: string | object, step: number): Counts {
    if (typeof turn === "string") return latest(this.#named, turn, MOST_TURNS);
    const steps = this.#byObject.get(turn) ?? new Map<number, Counts>();
    this.#byObject.set(turn, steps);
    return latest(steps, step, MOST_STEPS);
  }
}

function latest<K>(all: Map<K, Counts>, key: K, most: number): Counts {
  const counts: Counts = all.get(key) ?? new Map();
  all.delete(key);
  all.set(key, counts);
  bound(all, most);
  return counts;
}

function bound<K>(all: Map<K, unknown>, most: number): void {
  if (all.size > most) all.delete(all.keys().next().value as K);
}

/** The others have their answers. Whoever has given up comes back, and has the ordinal again. */
function leaveTheGone(counts: Counts): void {
  for (const [key, seen] of counts) {
    const left = seen.filter(isLeft);
    if (left.length === 0) counts.delete(key);
    else counts.set(key, left);
  }
}

function isLeft({ replaced, gone }: Seen): boolean {
  return !replaced && gone?.() === true;
}

function ordinalIn(
  counts: Counts,
  turn: Exclude<Turn, { readonly calls: unknown }>,
  same: string,
  most: number,
): number {
  const seen = counts.get(same) ?? [];
  counts.set(same, seen);
  bound(counts, MOST_KEYS);
  const own = seen.find(({ call }) => call === turn.call);
  if (own !== undefined) return own.ordinal;
  const left = seen.find(isLeft);
  if (left !== undefined) left.replaced = true;
  const ordinal = left?.ordinal ?? Math.min(new Set(seen.map((one) => one.ordinal)).size + 1, most);
  // A call that is not remembered gets the last ordinal again.
  if (seen.length < 2 * MOST_REPEATS)
    seen.push({ call: turn.call, ordinal, gone: turn.gone?.bind(turn), replaced: false });
  return ordinal;
}

async function placeIn(
  { call, calls }: { readonly call: unknown; readonly calls: readonly ListedCall[] },
  tool: string,
  same: string,
  sameOf: SameOf,
): Promise<number> {
  const named = calls.filter(({ name }) => name === tool).slice(0, 2 * MOST_REPEATS);
  const own = named.findIndex(({ id }) => id === call);
  if (own <= 0) return 1;
  const all = await Promise.all(named.slice(0, own + 1).map(({ args }) => sameOf(args).catch(() => null)));
  const mine = all[own] ?? same;
  return all.filter((one) => one === mine).length || 1;
}
