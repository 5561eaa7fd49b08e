/** "250ms", "30s", "5m", "24h", "7d", "2w", or milliseconds as a number. */
export type Duration = string | number;
export declare function durationMs(value: Duration, where: string): number;
/** The shortest exact way to say it, for messages and tables: 90000 → "90s", 86400000 → "1d". */
export declare function formatDuration(ms: number): string;
