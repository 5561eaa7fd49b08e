export declare function shortKey(key: string): string;
/** For tables: "12s", "4m", "3h", "5d". */
export declare function age(ms: number): string;
/** For sentences: "4 minutes". */
export declare function span(ms: number): string;
export declare function relative(at: number, now: number): string;
/** Local time with its offset: 2026-01-15T10:15:02+01:00. */
export declare function localIso(at: number): string;
export declare function moment(at: number, now: number): string;
export declare function plural(count: number, one: string, many?: string): string;
export declare function bytes(count: number): string;
/** A value on a command line that is to be copied: quoted for a shell where it needs to be. */
export declare function shellWord(value: string): string;
