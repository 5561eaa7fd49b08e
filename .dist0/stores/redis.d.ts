import type { Store } from "../core/store.ts";
import { type RedisClient } from "./redis-client.ts";
export type { RedisClient } from "./redis-client.ts";
export interface RedisStoreOptions {
    /** A client of your own: ioredis (Redis, Cluster) or node-redis (createClient, createCluster). It stays yours to close. */
    readonly client?: RedisClient;
    /** Or where the server is: redis://user:password@host:6379/0, rediss:// for TLS. A cluster is found out by itself. */
    readonly url?: string;
    /** What all keys of this ledger begin with; "nevertwice" unless given. */
    readonly prefix?: string;
    /** Guard actions with doubt: "hold" although this server may forget what it acknowledged. */
    readonly allowUnsafe?: boolean;
    /** How long one answer is waited for. */
    readonly timeoutMs?: number;
}
export declare function redisStore(options: RedisStoreOptions): Store;
