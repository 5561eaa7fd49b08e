/** Redis clients by shape: ioredis (Redis, Cluster) and node-redis (createClient, createCluster), behind four verbs. */
import { createRequire } from "node:module";
import { configError, messageOf } from "../core/errors.js";
export function wireOf(client) {
    const shape = client;
    if (typeof shape === "object" && shape !== null && typeof shape.duplicate === "function") {
        if (typeof shape.call === "function")
            return new IoRedisWire(client);
        // A node-redis Sentinel has sendCommand too, with other arguments.
        if (typeof shape.sendCommand === "function" && !("getSentinelNode" in shape))
            return new NodeRedisWire(client);
    }
    throw configError("redisStore: client is not a Redis client it knows. Pass new Redis(…) or new Cluster(…) of ioredis (Sentinel included), or createClient(…) or createCluster(…) of redis.");
}
const ignore = () => { };
class IoRedisWire {
    trouble;
    driver = "ioredis";
    cluster;
    #client;
    constructor(client) {
        this.#client = client;
        this.cluster = client.isCluster === true;
    }
    send(_key, command, args) {
        return this.#client.call(command, args);
    }
    async ask(command, args) {
        // A keyless command makes a Cluster client connect and choose; only then does it know its nodes.
        if (this.cluster)
            await this.#client.call("PING", []);
        const node = this.#client.nodes?.("master")[0] ?? this.#client;
        return node.call(command, args);
    }
    async listen(channels, heard) {
        const ear = this.cluster ? this.#client.duplicate([], { shardedSubscribers: true }) : this.#client.duplicate();
        ear.on("error", ignore);
        ear.on("message", (_channel, message) => heard(message));
        ear.on("smessage", (_channel, message) => heard(message));
        const close = async () => ear.disconnect();
        try {
            if (this.cluster)
                for (const channel of channels)
                    await ear.ssubscribe(channel);
            else
                await ear.subscribe(...channels);
        }
        catch (error) {
            await close();
            throw error;
        }
        return { close };
    }
    async end() {
        this.#client.disconnect();
    }
}
class NodeRedisWire {
    trouble;
    driver = "redis";
    cluster;
    #client;
    #connecting = null;
    constructor(client) {
        this.#client = client;
        this.cluster = typeof client.nodeClient === "function";
    }
    send(key, command, args) {
        const all = [command].concat(args);
        return this.#client.isOpen === false ? this.#connect().then(() => this.#send(key, all)) : this.#send(key, all);
    }
    #send(key, args) {
        return this.cluster ? this.#client.sendCommand(key, false, args) : this.#client.sendCommand(args);
    }
    async #connect() {
        this.#connecting ??= this.#client.connect();
        try {
            await this.#connecting;
        }
        finally {
            this.#connecting = null;
        }
    }
    async ask(command, args) {
        if (this.#client.isOpen === false)
            await this.#connect();
        const [first] = this.#client.masters ?? [];
        const node = this.cluster && first ? await this.#client.nodeClient?.(first) : this.#client;
        return node.sendCommand([command, ...args]);
    }
    async listen(channels, heard) {
        const ear = this.#client.duplicate();
        ear.on("error", ignore);
        const close = async () => void (await endOf(ear));
        try {
            await ear.connect();
            if (this.cluster)
                for (const channel of channels)
                    await ear.sSubscribe(channel, heard);
            else
                await ear.subscribe(channels, heard);
        }
        catch (error) {
            await close();
            throw error;
        }
        return { close };
    }
    async end() {
        await endOf(this.#client);
    }
}
/** `destroy` since version 5, `disconnect` before; both complain about a client that never connected. */
async function endOf(client) {
    try {
        await (client.destroy ?? client.disconnect)?.call(client);
    }
    catch {
        // It is closed, which is all that was asked.
    }
}
const require = createRequire(import.meta.url);
/** A client of our own for a URL, from whichever driver is installed. */
export function connectTo(url, kind) {
    const failures = [];
    for (const driver of ["ioredis", "redis"]) {
        try {
            const client = driver === "ioredis" ? ioRedisFor(url, kind) : nodeRedisFor(url, kind);
            const wire = wireOf(client);
            // An error event nobody listens to would end the process.
            client.on("error", (error) => {
                wire.trouble = error;
            });
            return wire;
        }
        catch (error) {
            if (!isMissing(error))
                throw error;
            failures.push(`${driver}: ${messageOf(error).split("\n")[0]}`);
        }
    }
    throw configError(`the Redis ledger needs a Redis client, and none is installed. Run: npm install ioredis (or: npm install redis). Tried ${failures.join("; ")}.`);
}
function ioRedisFor(url, kind) {
    const { Redis, Cluster } = require("ioredis");
    if (kind === "single")
        return new Redis(url, { lazyConnect: true });
    const { username, password, protocol } = new URL(url);
    const redisOptions = {
        ...(username && { username: decodeURIComponent(username) }),
        ...(password && { password: decodeURIComponent(password) }),
        ...(protocol === "rediss:" && { tls: {} }),
    };
    return new Cluster([url], { lazyConnect: true, redisOptions });
}
function nodeRedisFor(url, kind) {
    const { createClient, createCluster } = require("redis");
    if (kind === "single")
        return createClient({ url });
    const { username, password, protocol } = new URL(url);
    const defaults = {
        ...(username && { username: decodeURIComponent(username) }),
        ...(password && { password: decodeURIComponent(password) }),
        ...(protocol === "rediss:" && { socket: { tls: true } }),
    };
    return createCluster({ rootNodes: [{ url }], defaults });
}
function isMissing(error) {
    return error.code === "MODULE_NOT_FOUND";
}
//# sourceMappingURL=redis-client.js.map