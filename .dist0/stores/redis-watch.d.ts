/**
 * Waking those who wait for a record. The script that settles publishes the records it freed; a process subscribes when
 * its first caller has to wait, over a connection of its own. A hint: what is missed is found by looking.
 */
import type { Names } from "./redis-buckets.ts";
import type { Wire } from "./redis-client.ts";
export declare class RedisWatch {
    #private;
    constructor(wire: () => Promise<Wire>, names: Names);
    watch(key: string, wake: () => void): () => void;
    close(): Promise<void>;
}
