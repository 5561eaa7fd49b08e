/** Many short histories at once, each on a key of its own: stores batch and contend as they do under load. */

export type Chance = () => number;

export interface HistoryOptions {
  readonly histories: number;
  readonly chance: Chance;
  /** So that keys of one run are no keys of another. */
  readonly prefix: string;
  readonly atOnce?: number;
}

let ticks = 0;

/** One clock for all processes of a history: what happened before has the smaller number. */
export function tick(): number {
  ticks += 1;
  return ticks;
}

/** Those that no order explains, as text. */
export async function runAll(
  { histories, chance, prefix, atOnce = 16 }: HistoryOptions,
  one: (chance: Chance, id: string) => Promise<string | null>,
): Promise<string[]> {
  const bad: string[] = [];
  let next = 0;
  const lane = async () => {
    while (next < histories) {
      next += 1;
      const history = await one(chance, `${prefix}${next}`);
      if (history !== null) bad.push(history);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return bad;
}
