/** Savepoints in the caller's transaction: what a call wrote there goes or stays as a whole. */

import { nestedTurn } from "../shared/turns.ts";
import type { Connection } from "./client/connection.ts";

let savepoints = 0;

export function savepoint<T>(tx: object, connection: Connection, work: () => Promise<T>): Promise<T> {
  return nestedTurn(tx, () => allOrNothing(connection, work));
}

async function allOrNothing<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  savepoints += 1;
  const name = `nevertwice_${savepoints}`;
  await connection.query(`SAVEPOINT ${name}`);
  try {
    const answer = await work();
    await connection.query(`RELEASE SAVEPOINT ${name}`);
    return answer;
  } catch (error) {
    // Where the session itself is gone this fails too; what broke first is what to tell.
    await connection
      .query(`ROLLBACK TO SAVEPOINT ${name}`)
      .then(() => connection.query(`RELEASE SAVEPOINT ${name}`))
      .catch(() => {});
    throw error;
  }
}
