/** What Redis and its clients complain about, as an error that says what to do next. */
import { NevertwiceError } from "../core/errors.ts";
export declare function redisError(error: unknown, where: string): NevertwiceError;
export declare function timedOut(where: string, timeoutMs: number): NevertwiceError;
export declare function isNoScript(error: unknown): boolean;
/** Over in a moment: a failover, a slot that moves, a server that loads. Asking again is harmless: a swap names its version. */
export declare function isPassing(error: unknown): boolean;
