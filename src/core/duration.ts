import { configError } from "./errors.ts";

/** "250ms", "30s", "5m", "24h", "7d", "2w", or milliseconds as a number. */
export type Duration = string | number;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
// 100 years: past any sane `keep`, and far below 2^53, so that sums of instants and durations stay exact.
export const LONGEST_DURATION_MS = 100 * 365.25 * 86_400_000;

export function durationMs(value: Duration, where: string): number {
  const ms = typeof value === "number" ? value : parse(value as unknown);
  if (ms === undefined || !Number.isFinite(ms) || ms < 0 || ms > LONGEST_DURATION_MS) {
    throw configError(
      `${where}: ${shown(value)} is not a duration. Write a number of milliseconds, or a number with a unit: "250ms", "30s", "5m", "24h", "7d", "2w".`,
    );
  }
  return Math.round(ms);
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

function parse(text: unknown): number | undefined {
  if (typeof text !== "string") return undefined;
  const match = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * (UNIT_MS[match[2] as string] as number);
}

/** The shortest exact way to say it, for messages and tables: 90000 → "90s", 86400000 → "1d". */
export function formatDuration(ms: number): string {
  for (const unit of ["w", "d", "h", "m", "s"] as const) {
    const size = UNIT_MS[unit] as number;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return ms >= 1_000 ? `${(ms / 1_000).toFixed(1)}s` : `${Math.round(ms)}ms`;
}
