import type { RedisStoreOptions } from "./redis.ts";
import type { RedisClient } from "./redis-client.ts";
export interface RedisLocation {
    readonly client: RedisClient | null;
    readonly url: string;
    readonly prefix: string;
    readonly allowUnsafe: boolean;
    readonly timeoutMs: number;
    /** For messages: without the password. */
    readonly where: string;
}
export declare function readLocation(options: RedisStoreOptions): RedisLocation;
