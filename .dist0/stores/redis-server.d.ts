import type { Finding, StoreTraits } from "../core/store.ts";
import { type RedisLink } from "./redis-link.ts";
export interface ServerFacts {
    readonly product: string;
    readonly version: string;
    readonly role: string;
    readonly replicas: number;
    readonly cluster: boolean;
    readonly appendOnly: boolean;
    /** Null: CONFIG GET is forbidden, as it is on most managed servers. */
    readonly appendFsync: string | null;
    readonly eviction: string | null;
    readonly usedMemory: string;
    readonly maxMemory: string;
}
export declare function askServer(link: RedisLink): Promise<ServerFacts>;
/** Why an acknowledged claim may vanish from this server; none: it stays. */
export declare function losses(facts: ServerFacts): string[];
export declare function survivesOf(facts: ServerFacts | null): StoreTraits["survives"];
/** Why `hold` cannot be promised here; null: it can. */
export declare function holdRefusal(facts: ServerFacts): string | null;
export declare function findingsOf(facts: ServerFacts, where: string, allowUnsafe: boolean): Finding[];
