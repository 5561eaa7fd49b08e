/** Savepoints in the caller's transaction: what a call wrote there goes or stays as a whole. */
import { AsyncLocalStorage } from "node:async_hooks";

/** One thing after the other, where two at once would get into each other's way. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Whatever was begun before has ended. */
  async ended(): Promise<void> {
    await this.#last;
  }
}

const turnsOf = new WeakMap<object, Turns>();
// A call made by the work of a turn is part of that turn, and must not wait for it to end.
const inside = new AsyncLocalStorage<{ readonly tx: object; readonly turns: Turns }>();
let savepoints = 0;

type Run = (sql: string) => unknown;

/**
 * Savepoints of one transaction take turns, because they are a stack: if two overlapped, the end of one would release or
 * roll back the other's work with its own. What is begun inside of one nests.
 */
export function savepoint<T>(tx: object, run: Run, work: () => Promise<T>): Promise<T> {
  const outer = inside.getStore();
  const turns = outer?.tx === tx ? outer.turns : outermost(tx);
  return turns.take(() => inside.run({ tx, turns: new Turns() }, () => allOrNothing(run, work)));
}

function outermost(tx: object): Turns {
  const turns = turnsOf.get(tx) ?? new Turns();
  turnsOf.set(tx, turns);
  return turns;
}

async function allOrNothing<T>(run: Run, work: () => Promise<T>): Promise<T> {
  savepoints += 1;
  const name = `nevertwice_${savepoints}`;
  await run(`SAVEPOINT ${name}`);
  try {
    const answer = await work();
    await run(`RELEASE SAVEPOINT ${name}`);
    return answer;
  } catch (error) {
    try {
      await run(`ROLLBACK TO SAVEPOINT ${name}`);
      await run(`RELEASE SAVEPOINT ${name}`);
    } catch {
      // Where the session itself is gone this fails too; what broke first is what to tell.
    }
    throw error;
  }
}
