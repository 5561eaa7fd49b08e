/**
 * Python clients and the service, killed at random moments (SIGKILL) until there were enough kills. Then everything is looked
 * at: no effect twice, and what has an effect is done or unknown. Shared by the test and by `npm run torture -- --only python`.
 */

import { temporaryFolder } from "../crash/lib/processes.mjs";
import { startProvider } from "../crash/lib/provider.mjs";
import { seeded } from "../support/effort.mjs";
import { startPython, startService, TOKEN } from "./lib.mjs";
import { askOverSocket } from "./over-socket.mjs";

const WORKER = new URL("worker.py", import.meta.url).pathname;
const WAYS = ["plain", "manual", "decorated", "keyed", "queue", "task"];
const CLIENTS = 3;
const IDS_A_ROUND = 18;
// Clients of several rounds meet on the same ids, and go on where the killed ones were.
const KILLS_A_ROUND = 4;
const LEASE_MS = 1_500;
const MAX_LIFE_MS = 350;
const SERVICE_LIFE_MS = 1_500;

/**
 * @param {{ store: string, kills: number, seed: number, onKill?: (kills: number) => void }} options
 * @returns {Promise<{ kills: number, ofService: number, intents: number, effects: number, done: number, unknown: number, violations: string[] }>}
 */
export async function killPython({ store, kills, seed, onKill = () => {} }) {
  const run = new Run(store, kills, seed, onKill);
  try {
    return await run.over();
  } finally {
    await run.end();
  }
}

class Run {
  #store;
  #wanted;
  #random;
  #onKill;
  #socket = `${temporaryFolder()}/serve.sock`;
  #kills = 0;
  #ofService = 0;
  #acknowledged = new Set();
  #odd = [];
  #provider;
  #service;

  constructor(store, wanted, seed, onKill) {
    this.#store = store;
    this.#wanted = wanted;
    this.#random = seeded(seed);
    this.#onKill = onKill;
  }

  async over() {
    this.#provider = await startProvider({ script: () => mood(this.#random) });
    await this.#serve();
    await Promise.all([this.#killService(), ...Array.from({ length: CLIENTS }, () => this.#killClients())]);
    // Whoever was killed last is silent for a lease; then one client that nobody kills goes through everything.
    await sleep(LEASE_MS + 500);
    await this.#passInPeace();
    return this.#summary();
  }

  async end() {
    await this.#service?.process.kill();
    await this.#provider?.close();
  }

  async #serve() {
    this.#service = await startService({ store: this.#store, socket: this.#socket });
  }

  get #rounds() {
    return 1 + Math.floor(this.#kills / KILLS_A_ROUND);
  }

  #allIds() {
    return Array.from({ length: this.#rounds + 1 }, (_, i) => this.#idsOf(i + 1)).flat();
  }

  #idsOf(round) {
    return Array.from({ length: IDS_A_ROUND }, (_, i) => `${WAYS[i % WAYS.length]}-${round}-${i}`);
  }

  #start(ids, more = {}) {
    const spec = { ids, seed: Math.floor(this.#random() * 2 ** 31), lease: `${LEASE_MS}ms`, ...more };
    const at = { url: `unix:${this.#socket}`, provider: this.#provider.url };
    return startPython([WORKER, JSON.stringify(spec)], at);
  }

  async #killClients() {
    while (this.#kills < this.#wanted) {
      const client = this.#start([...this.#idsOf(this.#rounds), ...this.#idsOf(this.#rounds + 1)]);
      await client.event("ready").catch(() => {});
      const alive = await Promise.race([
        client.exited.then(() => false),
        sleep(this.#random() * MAX_LIFE_MS).then(() => true),
      ]);
      if (alive && this.#kills < this.#wanted && (await client.kill()).signal === "SIGKILL") this.#count();
      else await client.exited;
      this.#hear(client);
    }
  }

  async #killService() {
    while (this.#kills < this.#wanted) {
      await sleep(200 + this.#random() * SERVICE_LIFE_MS);
      if (this.#kills >= this.#wanted) return;
      await this.#service.process.kill();
      this.#ofService += 1;
      this.#count();
      await this.#serve();
    }
  }

  async #passInPeace() {
    // Twice: what a task took from the queue late, and what was tried again.
    for (let pass = 0; pass < 2; pass += 1) {
      const client = this.#start(this.#allIds(), { wait: "5s" });
      const { code } = await client.exited;
      if (code !== 0) this.#odd.push(`the last client ended with ${code}: ${client.stderr.slice(-2_000)}`);
      this.#hear(client);
    }
  }

  #hear(client) {
    for (const { done } of client.said) if (done !== undefined) this.#acknowledged.add(done);
    if (client.stderr.includes("Traceback")) this.#odd.push(`a client crashed: ${client.stderr.slice(-2_000)}`);
  }

  #count() {
    this.#kills += 1;
    this.#onKill(this.#kills);
  }

  async #summary() {
    const sum = { kills: this.#kills, ofService: this.#ofService, intents: 0, effects: 0, done: 0, unknown: 0 };
    const violations = [...this.#odd, ...this.#provider.mismatches.map((id) => `${id}: one key, other bytes`)];
    for (const id of this.#allIds()) {
      const { status } = await askOverSocket(this.#socket, TOKEN, "status", { action: id.split("-")[0], parts: [id] });
      const effects = this.#provider.effectsOf(id);
      sum.intents += 1;
      sum.effects += effects;
      if (status === "done") sum.done += 1;
      if (status === "unknown") sum.unknown += 1;
      violations.push(...wrongIn({ id, status, effects, acknowledged: this.#acknowledged.has(id) }));
    }
    return { ...sum, violations };
  }
}

function wrongIn({ id, status, effects, acknowledged }) {
  const wrong = [];
  if (effects > 1) wrong.push(`${id}: ${effects} effects (${status})`);
  if (status === "done" && effects !== 1) wrong.push(`${id}: done with ${effects} effects`);
  if (status !== "done" && status !== "unknown" && effects > 0)
    wrong.push(`${id}: an effect that nobody sees (${status})`);
  if (acknowledged && status !== "done") wrong.push(`${id}: acknowledged as done, and ${status}`);
  return wrong;
}

/** Mostly it answers, sometimes it does the work and hides it. */
function mood(random) {
  const dice = random();
  if (dice < 0.03) return "drop";
  if (dice < 0.06) return "fail";
  return { delayMs: Math.floor(random() * 15) };
}

function sleep(ms) {
  return new Promise((done) => setTimeout(done, ms));
}
