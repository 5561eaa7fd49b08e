// A keep: one temporary folder and the servers that live in it. Closing it, or dying, leaves nothing behind.
import { fork } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { find } from "./programs.mjs";
import { unprivileged } from "./unprivileged.mjs";

const KEEPER = fileURLToPath(new URL("./keeper.mjs", import.meta.url));
const START_MS = 30_000;
const CLOSE_MS = 15_000;
const RUN_MS = 60_000;

/**
 * @typedef {object} Launch
 * @property {string} name also the log's file name
 * @property {string} command
 * @property {readonly string[]} args
 * @property {boolean} [asNobody] run as a user that is not root
 * @property {NodeJS.Signals} [stopSignal] what ends it quickly and cleanly
 * @property {Record<string, string>} [env]
 */

/** One running program. */
class Server {
  #keep;
  #id;
  /** @type {number} */
  pid = 0;
  alive = true;
  log;
  /** @type {Promise<{ code?: number | null, signal?: NodeJS.Signals | null, failed?: string }>} */
  exited;

  constructor(keep, id, log) {
    this.#keep = keep;
    this.#id = id;
    this.log = log;
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    if (this.alive) this.#keep.send({ signal: { id: this.#id, name } });
  }

  /** Ends it and waits until it is gone. @param {NodeJS.Signals} name */
  async end(name) {
    this.signal("SIGCONT");
    this.signal(name);
    await within(this.exited, CLOSE_MS, `the end of ${this.log} after ${name}`);
  }

  /** The log's last lines, for error messages. */
  tail(lines = 15) {
    return readFileSync(this.log, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
  }
}

export async function openKeep() {
  const keeper = fork(KEEPER, [], {
    cwd: "/",
    detached: true,
    execArgv: [],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ready = new Promise((resolve, reject) => {
    keeper.once("message", resolve);
    keeper.once("error", reject);
    keeper.once("exit", (code) => reject(new Error(`the keeper ended with ${code} at its start`)));
  });
  const { folder } = await within(ready, START_MS, "the keeper's start");
  return new Keep(keeper, folder);
}

export class Keep {
  folder;
  #keeper;
  #next = 1;
  #waiting = 0;
  /** @type {Map<number, { started: (pid: number) => void, exited: (exit: object) => void }>} */
  #watched = new Map();
  #ended;

  /** @param {import("node:child_process").ChildProcess} keeper @param {string} folder */
  constructor(keeper, folder) {
    this.#keeper = keeper;
    this.folder = folder;
    this.#ended = new Promise((ended) => keeper.once("exit", ended));
    keeper.on("message", (message) => this.#hear(message));
    keeper.once("exit", () => this.#keeperGone());
    this.#rest();
  }

  /** A folder of its own for one server, numbered when the name is taken. @param {string} name */
  newFolder(name) {
    for (let number = 1; ; number += 1) {
      const path = join(this.folder, number === 1 ? name : `${name}-${number}`);
      if (mkdirSync(path, { recursive: true, mode: 0o700 }) !== undefined) return path;
    }
  }

  /** @param {Launch} launch */
  async start({ name, command, args, asNobody = false, stopSignal = "SIGTERM", env = {} }) {
    const id = this.#next++;
    const server = new Server(this, id, join(this.folder, `${name}.log`));
    // Should the keeper itself be killed, the kernel ends its servers (setpriv becomes the program; same process).
    const setpriv = process.platform === "linux" ? find("setpriv") : undefined;
    const [file, ...rest] = setpriv
      ? [setpriv, "--pdeathsig", stopSignal.replace("SIG", ""), "--", command, ...args]
      : [command, ...args];
    const started = new Promise((resolve, reject) => {
      server.exited = new Promise((exited) => {
        this.#watched.set(id, {
          started: resolve,
          exited: (exit) => {
            server.alive = false;
            reject(new Error(`${command} did not start: ${exit.failed ?? "the keeper is gone"}`));
            exited(exit);
          },
        });
      });
    });
    this.send({
      start: {
        id,
        command: file,
        args: rest,
        log: server.log,
        stopSignal,
        cwd: this.folder,
        env: { ...plainEnvironment(), ...env },
        ...(asNobody && unprivileged()),
      },
    });
    server.pid = await this.#holding(started);
    return server;
  }

  /** Runs a program to its end. @param {Launch} launch */
  async run(launch) {
    const server = await this.start(launch);
    const { code, signal } = await this.#holding(within(server.exited, RUN_MS, launch.command));
    if (code !== 0) throw new Error(`${launch.command} ended with ${signal ?? code}:\n${server.tail()}`);
  }

  /** Ends every server and removes the folder. */
  async close() {
    if (this.#keeper.connected) this.#keeper.disconnect();
    this.#keeper.ref();
    await within(this.#ended, CLOSE_MS, "the end of the servers");
    rmSync(this.folder, { recursive: true, force: true });
  }

  send(message) {
    if (!this.#keeper.connected) throw new Error("these services are closed");
    this.#keeper.send(message);
  }

  #hear({ id, pid, exit }) {
    const watched = this.#watched.get(id);
    if (pid !== undefined) watched?.started(pid);
    if (exit === undefined) return;
    this.#watched.delete(id);
    watched?.exited(exit);
  }

  #keeperGone() {
    for (const { exited } of this.#watched.values()) exited({ failed: "the keeper is gone" });
    this.#watched.clear();
  }

  /** The channel keeps this process alive while an answer is awaited, and never because of a forgotten close(). */
  async #holding(promise) {
    this.#waiting += 1;
    this.#keeper.channel?.ref();
    try {
      return await promise;
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#rest();
    }
  }

  #rest() {
    this.#keeper.unref();
    this.#keeper.channel?.unref();
  }
}

/** Without what changes how the programs behave or speak. */
function plainEnvironment() {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|REDIS|LC_|LANG|NODE_)/.test(name));
  return { ...Object.fromEntries(kept), LC_ALL: "C" };
}

async function within(promise, ms, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
