/** The ledger inside the caller's own transaction: the same reads and swaps, on the caller's connection. */
import { configError } from "../core/errors.js";
import { sqlState, storeError } from "./postgres-errors.js";
import { look } from "./postgres-migrate.js";
import { savepoint } from "./postgres-savepoint.js";
import { isServed, nameTenant } from "./postgres-schema.js";
import { noTransaction } from "./postgres-tx.js";
export function transactionView(options) {
    const { tx, connection, swaps, settings } = options;
    const guarded = async (work) => {
        try {
            options.check();
            await ensureChecked(options);
            // Named each time: a pooled connection outlives the transaction that it was named in.
            if (settings.rls)
                await connection.query(nameTenant(settings.tenant));
            return await work();
        }
        catch (error) {
            if (sqlState(error) === "25P01")
                throw noTransaction();
            throw storeError(error, { where: settings.name, schema: settings.schema });
        }
    };
    return {
        read: (keys) => guarded(() => swaps.read(connection, keys)),
        write: (puts) => guarded(() => swaps.write(connection, puts, true)),
        atomically: (work) => guardedSavepoint(tx, connection, work),
    };
}
async function guardedSavepoint(tx, connection, work) {
    try {
        return await savepoint(tx, connection, work);
    }
    catch (error) {
        if (sqlState(error) === "25P01")
            throw noTransaction();
        throw error;
    }
}
function ensureChecked(options) {
    const { checked } = options;
    let check = checked.get(options.tx);
    if (check === undefined) {
        check = checkLedger(options);
        checked.set(options.tx, check);
        check.catch(() => checked.delete(options.tx));
    }
    return check;
}
/**
 * One question on the caller's own connection, which may be the only one its pool has: is this the ledger's database?
 * A transaction elsewhere could not commit together with the record.
 */
async function checkLedger({ connection, clock, settings, ledgerId, open }) {
    const { schema, name } = settings;
    const { state, clock: seen } = await look(connection, schema);
    clock.observe(seen);
    const known = await ledgerId();
    if (state !== null && isServed(state, name) && (known === null || known === state.ledgerId))
        return;
    if (known === null)
        await open();
    if (state === null && known === null)
        return;
    throw configError(`tx is a transaction on a database that does not hold the ledger ${name}: they could not commit together. Keep the ledger in the same database: postgresStore({ url }) with the URL of that database.`);
}
//# sourceMappingURL=postgres-within.js.map