/** "did you mean": the nearest word, when it is near enough to be a slip of the finger. */
export function nearest(word: string, words: readonly string[]): string | null {
  const scored = words.map((candidate) => ({ candidate, distance: distance(word, candidate) }));
  scored.sort((a, b) => a.distance - b.distance);
  const [best] = scored;
  if (best === undefined) return null;
  const prefixed = words.find((candidate) => word.length >= 2 && candidate.startsWith(word));
  const tolerance = Math.max(1, Math.floor(Math.max(word.length, best.candidate.length) / 3));
  return best.distance <= tolerance ? best.candidate : (prefixed ?? null);
}

/** Insertions, deletions, substitutions and swapped neighbours. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const above = rows[i - 1] as number[];
      let least = Math.min((above[j] as number) + 1, (row[j - 1] as number) + 1, (above[j - 1] as number) + same);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) least = Math.min(least, ((rows[i - 2] as number[])[j - 2] as number) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return (rows[a.length] as number[])[b.length] as number;
}
