/**
 * The first revision of a row: one that no earlier row of its key can have had, also after a sweep. Time in ms, times 1024,
 * plus chance: an exact number until the year 2248.
 */
export function firstRevision(now: number): number {
  return Math.floor(now) * 1_024 + Math.floor(Math.random() * 1_024);
}

export function nextRevision(expected: number | null, now: number): number {
  return expected === null ? firstRevision(now) : expected + 1;
}
