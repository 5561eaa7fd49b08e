/** postgres.js: the `sql` function, which is a pool. */
import { configError } from "../core/errors.js";
import { beginning } from "./postgres-connection.js";
import { answerWithin } from "./postgres-timeout.js";
export function isPostgresJs(value) {
    return typeof value === "function" && typeof value.unsafe === "function";
}
/** A transaction has savepoints; the pool does not. */
export function isPostgresJsTransaction(value) {
    return isPostgresJs(value) && typeof value.savepoint === "function";
}
export async function queryJs(sql, text, values) {
    return [...(await sql.unsafe(text, values, { prepare: false }))];
}
async function reserve(sql, timeoutMs) {
    if (sql.reserve === undefined)
        throw configError("this postgres.js has no sql.reserve(). Run: npm install postgres@^3.4");
    const coming = sql.reserve();
    return answerWithin(timeoutMs, coming, () => void coming.then((late) => late.release()).catch(() => { }));
}
export function postgresJsDriver(sql, { timeoutMs, owned }) {
    const run = async (on, text, values) => {
        const pending = on.unsafe(text, values, { prepare: false });
        // The library has no way to drop one connection: the server is asked to cancel, and the answer is not waited for.
        const rows = await answerWithin(timeoutMs, pending, () => pending.cancel?.());
        return rows;
    };
    return {
        query: (text, values = []) => run(sql, text, values),
        count: async (text, values) => (await run(sql, text, values)).count,
        transaction: async (work, setup) => {
            const session = await reserve(sql, timeoutMs);
            const query = (text, values = []) => run(session, text, values);
            // Not sql.begin(): its COMMIT is a named statement, which behind a pooler may be another session's. It then fails,
            // is sent again to the transaction it has just aborted, and what was a commit is a rollback that says nothing.
            try {
                await query(beginning(setup));
                const answer = await work({ query });
                await query("COMMIT");
                return answer;
            }
            catch (error) {
                await query("ROLLBACK").catch(() => { });
                throw error;
            }
            finally {
                session.release();
            }
        },
        listen: async ({ channel, heard }) => {
            if (sql.listen === undefined)
                return null;
            const listening = sql.listen(channel, heard);
            // Its connections do not tell a pooler from a server: the self-probe decides.
            const { unlisten } = await answerWithin(timeoutMs, listening, () => { });
            return { direct: true, stop: () => unlisten().catch(() => { }) };
        },
        close: async () => {
            if (owned)
                await sql.end?.({ timeout: 5 });
        },
    };
}
//# sourceMappingURL=postgres-driver-js.js.map