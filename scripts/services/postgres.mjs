// A private PostgreSQL: as durable as a real one (fsync on), passwords checked on TCP, gone with its keep.
import { randomBytes } from "node:crypto";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { onFreePorts } from "./free-port.mjs";
import { program } from "./programs.mjs";
import { giveAway } from "./unprivileged.mjs";
import { GiveUp, until } from "./until.mjs";

export const SUPERUSER = "postgres";
/** The application's role and database: may log in and create databases, nothing more. */
export const ROLE = "nevertwice";
const STOP_SIGNALS = /** @type {const} */ ({ fast: "SIGINT", immediate: "SIGQUIT", kill: "SIGKILL" });

/**
 * @param {import("./keep.mjs").Keep} keep
 * @param {{ name?: string, settings?: Record<string, string | number> }} [options] settings as in postgresql.conf
 */
export async function startPostgres(keep, { name = "postgres", settings = {} } = {}) {
  const folder = keep.newFolder(name);
  const data = join(folder, "data");
  const password = randomBytes(12).toString("hex");
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  for (const path of [folder, passwordFile]) giveAway(path);
  await keep.run({
    name: `${name}-initdb`,
    command: program("initdb"),
    args: ["-D", data, "-U", SUPERUSER, `--pwfile=${passwordFile}`, ...INITDB],
    asNobody: true,
  });
  configure(data, { ...DURABLE, unix_socket_directories: folder, ...settings });
  const server = await onFreePorts(1, async ([port]) => {
    const postgres = new Postgres({ keep, name, folder, data, port, password });
    await postgres.start();
    return postgres;
  });
  await server.query(`CREATE ROLE ${ROLE} LOGIN CREATEDB PASSWORD '${password}'`);
  await server.query(`CREATE DATABASE ${ROLE} OWNER ${ROLE}`);
  return server;
}

// Local logins need no password (the socket lies in a closed folder), TCP ones do, so that a wrong one is refused.
// initdb's own files need no sync: nothing of value is in them yet.
const INITDB = ["--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"];
const DURABLE = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  wal_level: "replica",
  // A standby that was cut off for a while finds what it missed.
  wal_keep_size: "256MB",
  // In its folder, so that it goes with the folder even after a kill; the default is /dev/shm.
  dynamic_shared_memory_type: "mmap",
  max_connections: 200,
  listen_addresses: "127.0.0.1",
  unix_socket_permissions: "0700",
};

/** @param {string} data @param {Record<string, string | number>} settings */
export function configure(data, settings) {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`);
  appendFileSync(join(data, "postgresql.conf"), lines.join(""));
}

export class Postgres {
  #keep;
  #server;

  /** @param {{ keep: import("./keep.mjs").Keep, name: string, folder: string, data: string, port: number, password: string }} place */
  constructor({ keep, name, folder, data, port, password }) {
    this.#keep = keep;
    this.name = name;
    this.folder = folder;
    this.data = data;
    this.port = port;
    this.password = password;
    /** As the application: not a superuser. */
    this.url = `postgres://${ROLE}:${password}@127.0.0.1:${port}/${ROLE}`;
    this.adminUrl = `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`;
  }

  /** The postmaster's process id. */
  get pid() {
    return this.#server.pid;
  }

  /** Starts it, also again on the same data and port after stop(). */
  async start() {
    this.#server = await this.#keep.start({
      name: this.name,
      command: program("postgres"),
      args: ["-D", this.data, "-p", String(this.port)],
      asNobody: true,
      // Immediate shutdown: quick, and unlike SIGKILL it leaves no shared memory behind.
      stopSignal: "SIGQUIT",
    });
    await until(() => this.#answers(), { what: `${this.name} on port ${this.port}` });
  }

  /** @param {keyof typeof STOP_SIGNALS} [how] */
  async stop(how = "fast") {
    await this.#server.end(STOP_SIGNALS[how]);
  }

  /** @param {NodeJS.Signals} name to the postmaster: SIGSTOP, SIGCONT, SIGHUP */
  signal(name) {
    this.#server.signal(name);
  }

  /**
   * One statement as superuser, over a connection of its own.
   * @param {string} text @param {unknown[]} [values] @returns {Promise<Record<string, any>[]>}
   */
  async query(text, values) {
    const client = new pg.Client({
      connectionString: this.adminUrl,
      connectionTimeoutMillis: 5_000,
      query_timeout: 30_000,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      return (await client.query(text, values)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  }

  async #answers() {
    if (!this.#server.alive) throw new GiveUp(`${this.name} ended at its start:\n${this.#server.tail()}`);
    await this.query("SELECT 1");
    return true;
  }
}
