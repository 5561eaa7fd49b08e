// A private Redis. The default is the only setup that keeps what it acknowledged: every write synced, nothing evicted.
import { Redis as Client } from "ioredis";
import { onFreePorts } from "./free-port.mjs";
import { program, redisServer } from "./programs.mjs";
import { GiveUp, until } from "./until.mjs";

/** Settings of a Redis that keeps what it acknowledged. */
export const DURABLE = { appendonly: "yes", appendfsync: "always", "maxmemory-policy": "noeviction" };
/** Settings as many run it: synced once a second, so that the last second can be lost. */
export const EVERY_SECOND = { appendonly: "yes", appendfsync: "everysec" };
/** Settings of a Redis that keeps nothing over a restart. */
export const IN_MEMORY = { appendonly: "no" };

const PRIVATE = {
  bind: "127.0.0.1",
  save: "",
  databases: 64,
  // A replica is fed at once, not after waiting five seconds for more of them.
  "repl-diskless-sync-delay": 0,
  "shutdown-timeout": 0,
};

/**
 * @param {import("./keep.mjs").Keep} keep
 * @param {{ name?: string, settings?: Record<string, string | number> }} [options] settings as in redis.conf
 */
export async function startRedis(keep, { name = "redis", settings = DURABLE } = {}) {
  const folder = keep.newFolder(name);
  return onFreePorts(1, async ([port]) => {
    const redis = new Redis({ keep, name, port, settings: { dir: folder, ...settings } });
    await redis.start();
    return redis;
  });
}

/**
 * A replica of another one, in step when this returns.
 * @param {import("./keep.mjs").Keep} keep
 * @param {{ port: number }} primary or a proxy in front of it
 * @param {{ name?: string, settings?: Record<string, string | number> }} [options]
 */
export async function startRedisReplica(keep, primary, { name = "redis-replica", settings = DURABLE } = {}) {
  const replica = await startRedis(keep, { name, settings: { ...settings, replicaof: `127.0.0.1 ${primary.port}` } });
  await until(async () => (await replica.info("replication")).includes("master_link_status:up"), {
    what: `${name} following port ${primary.port}`,
  });
  return replica;
}

export class Redis {
  #keep;
  #server;
  #settings;

  /** @param {{ keep: import("./keep.mjs").Keep, name: string, port: number, settings: Record<string, string | number> }} place */
  constructor({ keep, name, port, settings }) {
    this.#keep = keep;
    this.#settings = { ...PRIVATE, port, ...settings };
    this.name = name;
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
  }

  get pid() {
    return this.#server.pid;
  }

  /**
   * Starts it, also again on the same folder and port after stop(), perhaps with other settings from then on.
   * @param {Record<string, string | number>} [settings]
   */
  async start(settings = {}) {
    this.#settings = { ...this.#settings, ...settings };
    this.#server = await this.#keep.start({
      name: this.name,
      command: program(redisServer),
      args: Object.entries(this.#settings).flatMap(([name, value]) => [`--${name}`, ...words(name, value)]),
      // Nobody misses its data when the run is over.
      stopSignal: "SIGKILL",
    });
    await until(() => this.#answers(), { what: `${this.name} on port ${this.port}` });
  }

  /** @param {"polite" | "kill"} [how] */
  async stop(how = "polite") {
    await this.#server.end(how === "kill" ? "SIGKILL" : "SIGTERM");
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    this.#server.signal(name);
  }

  /** Makes a replica a primary of its own, as a failover does. */
  async promote() {
    await this.call("REPLICAOF", "NO", "ONE");
  }

  /** @param {string} section @returns {Promise<string>} */
  async info(section) {
    return String(await this.call("INFO", section));
  }

  /**
   * One command over a connection of its own.
   * @param {string} command @param {(string | number)[]} args @returns {Promise<unknown>}
   */
  async call(command, ...args) {
    const client = new Client({
      host: "127.0.0.1",
      port: this.port,
      lazyConnect: true,
      enableReadyCheck: false,
      retryStrategy: () => null,
      connectTimeout: 2_000,
      commandTimeout: 10_000,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      return await client.call(command, ...args);
    } finally {
      client.disconnect();
    }
  }

  async #answers() {
    if (!this.#server.alive) throw new GiveUp(`${this.name} ended at its start:\n${this.#server.tail()}`);
    return (await this.call("PING")) === "PONG";
  }
}

/** `replicaof` takes two words; `save ""` is one empty word. */
function words(name, value) {
  return name === "replicaof" ? String(value).split(" ") : [String(value)];
}
