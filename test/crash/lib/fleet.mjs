/**
 * A fleet of workers on one ledger and overlapping keys, killed at random moments and started again, round after round.
 * Shared by the test (a fixed number of kills) and by the torture run (minutes). Everything random about it comes from
 * the seed; what the machine does with it in time does not, so a seed repeats the pressure, not the very interleaving.
 */
import { seeded } from "../../support/effort.mjs";
import { KINDS } from "./actions.mjs";
import { violations } from "./invariants.mjs";
import { startProgram, temporaryFolder } from "./processes.mjs";
import { startProvider } from "./provider.mjs";
import { viewLedger } from "./recovery.mjs";

const WORKER = new URL("../worker.mjs", import.meta.url).pathname;
const WORKERS = 4;
const IDS_A_ROUND = 150;
const MAX_LIFE_MS = 450;
const ROUND_TIMEOUT_MS = 120_000;

/**
 * Rounds until `enough({ kills, rounds })` says so or a violation is found.
 * `paths`: several paths to the ledger, one for each worker in turn. `store`: more for its orders, as storeOf takes them.
 * @param {{ seed: number, ledger?: string, paths?: string[], store?: object, enough: (sofar: Summary) => boolean, onRound?: (sofar: Summary) => void }} options
 * @typedef {{ rounds: number, kills: number, intents: number, effects: number, unknown: number, violations: string[] }} Summary
 * @returns {Promise<Summary>}
 */
export async function runFleet({
  seed,
  enough,
  onRound = () => {},
  ledger = `${temporaryFolder()}/ledger.db`,
  paths = [ledger],
  store = {},
}) {
  const random = seeded(seed);
  const provider = await startProvider({ script: () => mood(random) });
  const sum = { rounds: 0, kills: 0, intents: 0, effects: 0, unknown: 0, violations: [] };
  try {
    while (sum.violations.length === 0 && !enough(sum)) {
      await runRound({ random, provider, ledger, paths, store, sum });
      onRound(sum);
    }
    return sum;
  } finally {
    await provider.close();
  }
}

/** What the provider does with a request: mostly it answers, sometimes it does the work and hides it. */
function mood(random) {
  const dice = random();
  if (dice < 0.03) return "drop";
  if (dice < 0.06) return "fail";
  return { delayMs: Math.floor(random() * 12) };
}

async function runRound({ random, provider, ledger, paths, store, sum }) {
  sum.rounds += 1;
  const ids = Array.from({ length: IDS_A_ROUND }, (_, i) => `${KINDS[i % KINDS.length]}-${sum.rounds}-${i}`);
  const round = new Round({
    random,
    ids,
    paths,
    order: { ...store, provider: provider.url, leaseMs: 500, quietMs: 300 },
  });
  await round.over();
  sum.kills += round.kills;
  sum.intents += ids.length;
  const { bad, records } = await viewLedger(ledger);
  const mine = new Set(ids);
  const ofRound = records.filter((record) => mine.has(record.id));
  sum.unknown += ofRound.filter((record) => record.state === "unknown").length;
  sum.effects += ids.reduce((total, id) => total + provider.effectsOf(id), 0);
  sum.violations.push(...bad, ...round.failures, ...violations({ ids, records: ofRound, provider, said: round.said }));
}

/** One list of intents, worked off by all workers at once; over when one of them has seen every intent settled. */
class Round {
  kills = 0;
  said = [];
  failures = [];
  #options;
  #workers = [];
  #over = false;

  constructor(options) {
    this.#options = options;
  }

  async over() {
    const tooLate = Date.now() + ROUND_TIMEOUT_MS;
    await Promise.all(Array.from({ length: WORKERS }, (_, lane) => this.#lane(lane, tooLate)));
  }

  /** One worker after another in this lane, each killed after a random while. */
  async #lane(lane, tooLate) {
    while (!this.#over) {
      if (Date.now() > tooLate) {
        this.failures.push("the round did not end: some intent is never settled");
        this.#finish();
        return;
      }
      await this.#life(lane);
    }
  }

  async #life(lane) {
    const { random, ids, paths, order } = this.#options;
    const ledger = paths[lane % paths.length];
    const worker = startProgram(WORKER, { ...order, ledger, ids: shuffled(ids, random), prepare: random() < 0.5 });
    this.#workers[lane] = worker;
    // From its first call on: killing a process that is still loading node proves little.
    const timer = worker
      .event("opened")
      .then(() => new Promise((done) => setTimeout(done, random() * this.#longestLifeMs)))
      .then(() => (this.#over ? undefined : worker.kill()))
      .catch(() => {});
    const { signal, code } = await worker.exited;
    await timer;
    this.#learn(worker, signal, code);
  }

  /** Longer lives as a round goes on, so that it ends on a machine too slow to get anything done in short ones. */
  get #longestLifeMs() {
    return MAX_LIFE_MS * (1 + this.kills / 40);
  }

  #learn(worker, signal, code) {
    if (signal === "SIGKILL") this.kills += 1;
    else if (code !== 0) this.failures.push(`a worker failed: ${worker.stderr}`);
    for (const one of worker.said) {
      if (one.event === "outcome") this.said.push(one);
      if (one.event === "threw") this.failures.push(`${one.id}: a caller got ${one.code}: ${one.message}`);
      if (one.event === "duplicate") this.failures.push(`${one.key}: duplicate_detected`);
    }
    if (worker.said.some((one) => one.event === "settled")) this.#finish();
  }

  #finish() {
    this.#over = true;
    for (const worker of this.#workers) void worker.kill();
  }
}

function shuffled(list, random) {
  const copy = [...list];
  for (let i = copy.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
}
