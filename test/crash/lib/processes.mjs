/** Child processes of the crash tests: started, listened to, killed for real, counted, and never left behind. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { tried } from "../../support/effort.mjs";

const VICTIM = fileURLToPath(new URL("../victim.mjs", import.meta.url));
const KEPT_STDERR = 20_000;
const POLL_MS = 5;
const MAX_POLLS = 4_000;

const living = new Set();
const folders = new Set();
let kills = 0;
let closed = false;

/** How many processes were SIGKILLed by this test file, by us or by strace. */
export function killCount() {
  return kills;
}

export function countKill(many = 1) {
  kills += many;
  tried("processes killed", many);
}

export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-crash-"));
  folders.add(folder);
  return folder;
}

/** For afterAll: whatever a failed test left running is ended, by its own group, and what it goes on to start is refused. */
export function cleanUp() {
  closed = true;
  for (const running of living) running.end();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  folders.clear();
}

/** @param {object} spec @param {{ wrap?: readonly string[], env?: Record<string, string> }} [options] */
export function startVictim(spec, options = {}) {
  return startProgram(VICTIM, spec, options);
}

/**
 * `wrap`: a command in front of node, such as strace with its options.
 * @param {string} program
 * @param {object} spec
 * @param {{ wrap?: readonly string[], env?: Record<string, string> }} [options]
 */
export function startProgram(program, spec, { wrap = [], env = {} } = {}) {
  return startCommand([...wrap, process.execPath, program, JSON.stringify(spec)], env);
}

/**
 * @param {readonly string[]} line the command and its arguments
 * @param {Record<string, string>} [env]
 */
export function startCommand([command, ...args], env = {}) {
  if (closed) throw new Error("the test is over: nothing more is started");
  const child = spawn(command, args, {
    // A group of its own: strace and what it traces end together.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  return new Running(child);
}

class Running {
  /**
   * What the child said so far, one JSON value per line.
   * @type {any[]}
   */
  said = [];
  stderr = "";
  #child;
  #waiting = [];
  #over = null;

  constructor(child) {
    this.#child = child;
    living.add(this);
    child.stdin.on("error", () => {}); // the child died before it read its orders
    child.stderr.on("data", (chunk) => {
      this.stderr = (this.stderr + chunk).slice(-KEPT_STDERR);
    });
    createInterface({ input: child.stdout }).on("line", (line) => this.#hear(line));
    this.exited = new Promise((resolve) => {
      child.on("error", (error) => resolve({ code: null, signal: null, error }));
      child.on("close", (code, signal) => resolve({ code, signal }));
    }).then((over) => this.#end(over));
  }

  get pid() {
    return this.#child.pid;
  }

  /** Resolves with the first thing said that fits; rejects when the child ends without saying it. */
  says(fits) {
    const already = this.said.find(fits);
    if (already !== undefined) return Promise.resolve(already);
    if (this.#over) return Promise.reject(this.#silent());
    return new Promise((resolve, reject) => this.#waiting.push({ fits, resolve, reject }));
  }

  event(name) {
    return this.says((one) => one.event === name);
  }

  /** Resolves when the victim has said "paused" and the kernel has really stopped it: a SIGCONT before that would be lost. */
  async paused() {
    const pause = await this.event("paused");
    await this.stopped();
    return pause;
  }

  async stopped() {
    for (let poll = 0; poll < MAX_POLLS; poll += 1) {
      const stat = readFileSync(`/proc/${this.pid}/stat`, "utf8");
      if (stat[stat.lastIndexOf(")") + 2] === "T") return;
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
    throw new Error("the child never stopped");
  }

  tell(line) {
    this.#child.stdin.write(`${line}\n`);
  }

  signal(name) {
    this.#child.kill(name);
  }

  async kill() {
    if (this.#over === null && this.#child.kill("SIGKILL")) countKill();
    return this.exited;
  }

  /** Cleaning up: the whole group, not counted as a test's kill. */
  end() {
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // Already gone.
    }
  }

  #hear(line) {
    let value;
    try {
      value = JSON.parse(line);
    } catch {
      this.#answer({ text: line }); // no JSON, or cut off in the middle by a kill
      return;
    }
    this.said.push(value);
    this.#answer(value);
  }

  #answer(value) {
    this.#waiting = this.#waiting.filter(({ fits, resolve }) => {
      if (!fits(value)) return true;
      resolve(value);
      return false;
    });
  }

  #end(over) {
    this.#over = over;
    living.delete(this);
    for (const { reject } of this.#waiting) reject(this.#silent());
    this.#waiting = [];
    return over;
  }

  #silent() {
    const { code, signal } = this.#over;
    return new Error(
      `the child ended (${signal ?? code}) without saying it. It said: ${JSON.stringify(this.said).slice(0, 2_000)} ${this.stderr}`,
    );
  }
}

/** Runs jobs with a bounded number at once; results in order. */
export async function pooled(jobs, atOnce) {
  const results = new Array(jobs.length);
  let next = 0;
  const lane = async () => {
    while (next < jobs.length) {
      const mine = next;
      next += 1;
      results[mine] = await jobs[mine]();
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, jobs.length) }, lane));
  return results;
}
