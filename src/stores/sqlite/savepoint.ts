/** Savepoints in the caller's transaction: what a call wrote there goes or stays as a whole. */

import { nestedTurn } from "../shared/turns.ts";
import type { SqliteHandle } from "./driver.ts";

let savepoints = 0;

export function savepoint<T>(tx: SqliteHandle, work: () => Promise<T>): Promise<T> {
  return nestedTurn(tx, () => allOrNothing(tx, work));
}

async function allOrNothing<T>(tx: SqliteHandle, work: () => Promise<T>): Promise<T> {
  savepoints += 1;
  const name = `nevertwice_${savepoints}`;
  tx.exec(`SAVEPOINT ${name}`);
  try {
    const answer = await work();
    tx.exec(`RELEASE ${name}`);
    return answer;
  } catch (error) {
    tx.exec(`ROLLBACK TO ${name}`);
    tx.exec(`RELEASE ${name}`);
    throw error;
  }
}
