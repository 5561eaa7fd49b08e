/**
 * Savepoints in the caller's transaction, one at a time. They are a stack: if two calls of one transaction overlapped,
 * the end of one would release or roll back the other's work with its own.
 */
import { AsyncLocalStorage } from "node:async_hooks";
class Turns {
    #last = Promise.resolve();
    take(work) {
        const turn = this.#last.then(work);
        this.#last = turn.catch(() => { });
        return turn;
    }
}
const turnsOf = new WeakMap();
// A call made by the work of a savepoint nests inside it; it must not wait for the savepoint it is a part of.
const inside = new AsyncLocalStorage();
let savepoints = 0;
export function savepoint(tx, connection, work) {
    const outer = inside.getStore();
    const turns = outer?.tx === tx ? outer.turns : outermost(tx);
    return turns.take(() => inside.run({ tx, turns: new Turns() }, () => allOrNothing(connection, work)));
}
function outermost(tx) {
    let turns = turnsOf.get(tx);
    if (turns === undefined) {
        turns = new Turns();
        turnsOf.set(tx, turns);
    }
    return turns;
}
async function allOrNothing(connection, work) {
    savepoints += 1;
    const name = `nevertwice_${savepoints}`;
    await connection.query(`SAVEPOINT ${name}`);
    try {
        const answer = await work();
        await connection.query(`RELEASE SAVEPOINT ${name}`);
        return answer;
    }
    catch (error) {
        // Where the session itself is gone this fails too; what broke first is what to tell.
        await connection
            .query(`ROLLBACK TO SAVEPOINT ${name}`)
            .then(() => connection.query(`RELEASE SAVEPOINT ${name}`))
            .catch(() => { });
        throw error;
    }
}
//# sourceMappingURL=postgres-savepoint.js.map