/** Histories of whole calls: several programs call, fail, call again and look at one intent at once. */
import { type Nevertwice, notSent } from "nevertwice";
import { isLinearizable, type Operation, shown } from "./checker.ts";
import { type Chance, type HistoryOptions, runAll, tick } from "./run-all.ts";

/** "absent", "running", "failed", or "done" and the result. */
type Intent = string;

interface Input {
  readonly id: string;
}

const CALLS_EACH = 3;
const FAILING = 0.4;

export function engineHistories(programs: readonly Nevertwice[], options: HistoryOptions): Promise<string[]> {
  const tellers = programs.map((nt) => new Program(nt, options.chance));
  return runAll(options, async (chance, id) => {
    const operations: Operation<Intent>[] = [];
    await Promise.all(tellers.map((program) => program.live(id, chance, operations)));
    return isLinearizable<Intent>(operations, "absent", (state) => state) ? null : shown(operations);
  });
}

class Program {
  /** When the effect of an intent ran in this program, and what it did. */
  readonly #runs = new Map<string, { readonly began: number; readonly ended: number }>();
  readonly #call;

  constructor(nt: Nevertwice, chance: Chance) {
    this.#call = nt.action("call", {
      key: ["id"],
      wait: "60s",
      retry: { attempts: 1 },
      run: async ({ id }: Input, { attempt }) => {
        const began = tick();
        if (chance() < 0.5) await new Promise((turn) => setImmediate(turn));
        const failing = chance() < FAILING;
        this.#runs.set(id, { began, ended: tick() });
        if (failing) throw notSent(new Error("not this time"));
        return attempt;
      },
    });
  }

  async live(id: string, chance: Chance, operations: Operation<Intent>[]): Promise<void> {
    for (let left = CALLS_EACH; left > 0; left -= 1) {
      if (chance() < 0.3) await this.#look(id, operations);
      else await this.#attempt(id, operations);
    }
  }

  async #look(id: string, operations: Operation<Intent>[]): Promise<void> {
    const invoked = tick();
    const outcome = await this.#call.status({ id });
    const returned = tick();
    const seen = outcome.status === "done" ? `done ${outcome.result}` : stateOf(outcome.status);
    operations.push({ name: `status: ${seen}`, invoked, returned, apply: (state) => (state === seen ? state : null) });
  }

  /** A call that ran is two steps: from its beginning to the effect's, and from the effect's end to its own. */
  async #attempt(id: string, operations: Operation<Intent>[]): Promise<void> {
    this.#runs.delete(id);
    const invoked = tick();
    const outcome = await this.#call.attempt({ id });
    const returned = tick();
    const run = this.#runs.get(id);
    const end = outcome.status === "done" ? `done ${outcome.result}` : stateOf(outcome.status);
    if (run === undefined) {
      operations.push({ name: `replay: ${end}`, invoked, returned, apply: (state) => (state === end ? state : null) });
      return;
    }
    const free = (state: Intent) => state === "absent" || state === "failed";
    operations.push(
      { name: "claim", invoked, returned: run.began, apply: (state) => (free(state) ? "running" : null) },
      { name: `settle: ${end}`, invoked: run.ended, returned, apply: (state) => (state === "running" ? end : null) },
    );
  }
}

function stateOf(status: string): Intent {
  return status === "in_flight" ? "running" : status;
}
