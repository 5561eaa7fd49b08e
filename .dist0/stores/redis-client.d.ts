/** What redisStore() accepts as `client`; the shapes are looked at, never the classes. */
export type RedisClient = object;
export interface Wire {
    readonly cluster: boolean;
    readonly driver: "ioredis" | "redis";
    /** To the server that holds `key`. */
    send(key: string, command: string, args: readonly string[]): Promise<unknown>;
    /** To any one primary. */
    ask(command: string, args: readonly string[]): Promise<unknown>;
    /** Calls `heard` with every message on these channels, over a connection of its own. */
    listen(channels: readonly string[], heard: (message: string) => void): Promise<Ear>;
    end(): Promise<void>;
    /** What its connection last complained about, where we are told: the reason for a silence. */
    trouble?: unknown;
}
export interface Ear {
    close(): Promise<void>;
}
export declare function wireOf(client: RedisClient): Wire;
/** A client of our own for a URL, from whichever driver is installed. */
export declare function connectTo(url: string, kind: "single" | "cluster"): Wire;
