/** Redis clients by shape: ioredis (Redis, Cluster) and node-redis (createClient, createCluster), behind four verbs. */
import { configError, messageOf } from "../../core/errors.ts";
import { requireInstalled } from "../../engine/installed-package.ts";
import { letProcessExit } from "./exit.ts";

/** What redisStore() accepts as `client`; the shapes are looked at, never the classes. */
export type RedisClient = object;

/** Buffers are for what is large or many. */
export type Argument = string | Buffer;

export interface Wire {
  readonly cluster: boolean;
  readonly driver: "ioredis" | "redis";
  /** To the server that holds `key`. */
  send(key: string, command: string, args: readonly Argument[]): Promise<unknown>;
  /** To any one primary. */
  ask(command: string, args: readonly Argument[]): Promise<unknown>;
  /**
   * Calls `heard` with every message on these channels, over a connection of its own, which its driver takes up again when
   * it is cut; `lost` when the driver has given up.
   */
  listen(channels: readonly string[], heard: (message: string) => void, lost: () => void): Promise<Ear>;
  end(): Promise<void>;
  /** What its connection last complained about, where we are told: the reason for a silence. */
  trouble?: unknown;
}

export interface Ear {
  close(): Promise<void>;
}

type Listener = (...args: never[]) => void;

interface IoRedis {
  readonly isCluster?: boolean;
  call(command: string, args: readonly Argument[]): Promise<unknown>;
  duplicate(...overrides: unknown[]): IoRedis;
  nodes?(role: "master"): IoRedis[];
  subscribe(...channels: string[]): Promise<unknown>;
  ssubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
  disconnect(): void;
}

interface NodeRedis {
  readonly isOpen?: boolean;
  readonly masters?: readonly unknown[];
  connect(): Promise<unknown>;
  sendCommand(...args: unknown[]): Promise<unknown>;
  nodeClient?(node: unknown): Promise<NodeRedis> | NodeRedis;
  duplicate(): NodeRedis;
  subscribe(channels: string | readonly string[], heard: (message: string) => void): Promise<unknown>;
  sSubscribe(channels: string | readonly string[], heard: (message: string) => void): Promise<unknown>;
  on(event: string, listener: Listener): unknown;
  destroy?(): unknown;
  disconnect?(): Promise<unknown>;
}

export function wireOf(client: RedisClient): Wire {
  const shape = client as Partial<IoRedis & NodeRedis> | null;
  if (typeof shape === "object" && shape !== null && typeof shape.duplicate === "function") {
    if (typeof shape.call === "function") return new IoRedisWire(client as IoRedis);
    // A node-redis Sentinel has sendCommand too, with other arguments.
    if (typeof shape.sendCommand === "function" && !("getSentinelNode" in shape))
      return new NodeRedisWire(client as NodeRedis);
  }
  throw configError(
    "redisStore: client is not a Redis client it knows. Pass new Redis(…) or new Cluster(…) of ioredis (Sentinel included), or createClient(…) or createCluster(…) of redis.",
  );
}

const ignore = () => {};

class IoRedisWire implements Wire {
  trouble?: unknown;
  readonly driver = "ioredis";
  readonly cluster: boolean;
  readonly #client: IoRedis;

  constructor(client: IoRedis) {
    this.#client = client;
    this.cluster = client.isCluster === true;
  }

  send(_key: string, command: string, args: readonly Argument[]): Promise<unknown> {
    return this.#client.call(command, args);
  }

  async ask(command: string, args: readonly Argument[]): Promise<unknown> {
    // A keyless command makes a Cluster client connect and choose; only then does it know its nodes.
    if (this.cluster) await this.#client.call("PING", []);
    const node = this.#client.nodes?.("master")[0] ?? this.#client;
    return node.call(command, args);
  }

  async listen(channels: readonly string[], heard: (message: string) => void, lost: () => void): Promise<Ear> {
    const ear = this.cluster ? this.#client.duplicate([], { shardedSubscribers: true }) : this.#client.duplicate();
    letProcessExit(ear);
    ear.on("error", ignore);
    ear.on("end", lost);
    ear.on("message", (_channel: string, message: string) => heard(message));
    ear.on("smessage", (_channel: string, message: string) => heard(message));
    const close = async () => ear.disconnect();
    try {
      if (this.cluster) {
        for (const channel of channels) await ear.ssubscribe(channel);
        letProcessExit(ear);
      } else await ear.subscribe(...channels);
    } catch (error) {
      await close();
      throw error;
    }
    return { close };
  }

  async end(): Promise<void> {
    this.#client.disconnect();
  }
}

class NodeRedisWire implements Wire {
  trouble?: unknown;
  readonly driver = "redis";
  readonly cluster: boolean;
  readonly #client: NodeRedis;
  #connecting: Promise<unknown> | null = null;

  constructor(client: NodeRedis) {
    this.#client = client;
    this.cluster = typeof client.nodeClient === "function";
  }

  send(key: string, command: string, args: readonly Argument[]): Promise<unknown> {
    const all = ([command] as Argument[]).concat(args);
    return this.#client.isOpen === false ? this.#connect().then(() => this.#send(key, all)) : this.#send(key, all);
  }

  #send(key: string, args: readonly Argument[]): Promise<unknown> {
    return this.cluster ? this.#client.sendCommand(key, false, args) : this.#client.sendCommand(args);
  }

  async #connect(): Promise<void> {
    this.#connecting ??= this.#client.connect();
    try {
      await this.#connecting;
    } finally {
      this.#connecting = null;
    }
  }

  async ask(command: string, args: readonly Argument[]): Promise<unknown> {
    if (this.#client.isOpen === false) await this.#connect();
    const [first] = this.#client.masters ?? [];
    const node = this.cluster && first ? await this.#client.nodeClient?.(first) : this.#client;
    return (node as NodeRedis).sendCommand([command, ...args]);
  }

  async listen(channels: readonly string[], heard: (message: string) => void, lost: () => void): Promise<Ear> {
    const ear = this.#client.duplicate();
    letProcessExit(ear);
    ear.on("error", ignore);
    ear.on("end", lost);
    const close = async () => void (await endOf(ear));
    try {
      await ear.connect();
      if (this.cluster) {
        for (const channel of channels) await ear.sSubscribe(channel, heard);
        letProcessExit(ear);
      } else await ear.subscribe(channels, heard);
    } catch (error) {
      await close();
      throw error;
    }
    return { close };
  }

  async end(): Promise<void> {
    await endOf(this.#client);
  }
}

/** `destroy` since version 5, `disconnect` before; both complain about a client that never connected. */
async function endOf(client: NodeRedis): Promise<void> {
  try {
    await (client.destroy ?? client.disconnect)?.call(client);
  } catch {
    // It is closed, which is all that was asked.
  }
}

interface IoRedisModule {
  Redis: new (url: string, options: object) => IoRedis;
  Cluster: new (nodes: readonly string[], options: object) => IoRedis;
}

interface NodeRedisModule {
  createClient(options: object): NodeRedis;
  createCluster(options: object): NodeRedis;
}

/** A client of our own for a URL, from whichever driver is installed. */
export function connectTo(url: string, kind: "single" | "cluster"): Wire {
  const failures: string[] = [];
  for (const driver of ["ioredis", "redis"] as const) {
    try {
      const client = driver === "ioredis" ? ioRedisFor(url, kind) : nodeRedisFor(url, kind);
      const wire = wireOf(client);
      letProcessExit(client);
      // An error event nobody listens to would end the process.
      client.on("error", (error: unknown) => {
        wire.trouble = error;
      });
      return wire;
    } catch (error) {
      if (!isMissing(error)) throw error;
      failures.push(`${driver}: ${messageOf(error).split("\n")[0]}`);
    }
  }
  throw configError(
    `the Redis ledger needs a Redis client, and none is installed. Run: npm install ioredis (or: npm install redis). Tried ${failures.join("; ")}.`,
  );
}

function ioRedisFor(url: string, kind: "single" | "cluster"): IoRedis {
  const { Redis, Cluster } = requireInstalled("ioredis") as IoRedisModule;
  if (kind === "single") return new Redis(url, { lazyConnect: true });
  const { username, password, protocol } = new URL(url);
  const redisOptions = {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" && { tls: {} }),
  };
  return new Cluster([url], { lazyConnect: true, redisOptions });
}

function nodeRedisFor(url: string, kind: "single" | "cluster"): NodeRedis {
  const { createClient, createCluster } = requireInstalled("redis") as NodeRedisModule;
  const unread = [...new URL(url).searchParams.keys()];
  if (unread.length > 0)
    throw configError(
      `redisStore: the URL has the parameter ${unread.join(", ")}, which ioredis reads and node-redis does not; node-redis is what is installed. Run: npm install ioredis, or make the client yourself: redisStore({ client }).`,
    );
  if (kind === "single") return createClient({ url });
  const { username, password, protocol } = new URL(url);
  const defaults = {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" && { socket: { tls: true } }),
  };
  return createCluster({ rootNodes: [{ url }], defaults });
}

function isMissing(error: unknown): boolean {
  return (error as { code?: unknown }).code === "MODULE_NOT_FOUND";
}
