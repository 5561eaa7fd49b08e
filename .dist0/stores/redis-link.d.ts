import type { Wire } from "./redis-client.ts";
import type { ServerClock } from "./redis-clock.ts";
import type { Script } from "./redis-scripts.ts";
export declare class RedisLink {
    #private;
    readonly wire: Wire;
    readonly where: string;
    constructor(options: {
        wire: Wire;
        where: string;
        clock: ServerClock;
        timeoutMs: number;
    });
    /** The script's answer without the server's time, which stands first in it. `keys` are in one slot. */
    run(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown[]>;
    /** Once, and told as it is: for those who have a better answer to a moving slot than waiting. */
    runOnce(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown[]>;
    ask(command: string, ...args: string[]): Promise<unknown>;
}
/** Clients may be set up to answer with buffers. */
export declare function textOf(value: unknown): string;
