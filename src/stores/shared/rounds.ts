/**
 * Work on items in batches in which no key comes twice: a second item of a key waits for a round after the first. Results
 * are in the order of the items.
 */
export async function inRounds<T, R>(
  items: readonly T[],
  keyOf: (item: T) => string,
  work: (round: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const rounds: number[][] = [];
  const counts = new Map<string, number>();
  for (const [place, item] of items.entries()) {
    const nth = counts.get(keyOf(item)) ?? 0;
    counts.set(keyOf(item), nth + 1);
    const round = rounds[nth] ?? [];
    round.push(place);
    rounds[nth] = round;
  }
  const results = new Array<R>(items.length);
  for (const round of rounds) {
    const done = await work(round.map((place) => items[place] as T));
    for (const [i, place] of round.entries()) results[place] = done[i] as R;
  }
  return results;
}
