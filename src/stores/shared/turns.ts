/** One thing after the other, where two at once would get into each other's way. */
import { AsyncLocalStorage } from "node:async_hooks";

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

const turnsOf = new WeakMap<object, Turns>();
// A call made by the work of a turn is part of that turn, and must not wait for it to end.
const inside = new AsyncLocalStorage<{ readonly tx: object; readonly turns: Turns }>();

/**
 * Savepoints of one transaction take turns, because they are a stack: if two overlapped, the end of one would release or
 * roll back the other's work with its own. What is begun inside of one nests.
 */
export function nestedTurn<T>(tx: object, work: () => Promise<T>): Promise<T> {
  const outer = inside.getStore();
  const turns = outer?.tx === tx ? outer.turns : outermost(tx);
  return turns.take(() => inside.run({ tx, turns: new Turns() }, work));
}

function outermost(tx: object): Turns {
  let turns = turnsOf.get(tx);
  if (turns === undefined) {
    turns = new Turns();
    turnsOf.set(tx, turns);
  }
  return turns;
}
