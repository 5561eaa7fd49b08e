var __rewriteRelativeImportExtension = (this && this.__rewriteRelativeImportExtension) || function (path, preserveJsx) {
    if (typeof path === "string" && /^\.\.?\//.test(path)) {
        return path.replace(/\.(tsx)$|((?:\.d)?)((?:\.[^./]+?)?)\.([cm]?)ts$/i, function (m, tsx, d, ext, cm) {
            return tsx ? preserveJsx ? ".jsx" : ".js" : d && (!ext || !cm) ? m : (d + ext + "." + cm.toLowerCase() + "js");
        });
    }
    return path;
};
/**
 * Clients by shape: a `pg` Pool or Client, a postgres.js `sql`, or a connection string for which one of them is loaded.
 * No session state, so that PgBouncer's transaction mode serves as well as a direct connection.
 */
import { configError, messageOf } from "../core/errors.js";
import { postgresJsDriver } from "./postgres-driver-js.js";
import { pgClientDriver, pgPoolDriver } from "./postgres-driver-pg.js";
export async function openDriver({ url, pool, client, sql, timeoutMs }) {
    if (pool !== undefined)
        return pgPoolDriver(pool, { timeoutMs, owned: false });
    if (client !== undefined)
        return pgClientDriver(client, timeoutMs);
    if (sql !== undefined)
        return postgresJsDriver(sql, { timeoutMs, owned: false });
    return loadDriver(url, timeoutMs);
}
// Two batches of writes and two of reads may be under way, and the sweep beside them.
const CONNECTIONS = 6;
async function loadDriver(url, timeoutMs) {
    const failures = [];
    const pg = await load("pg", failures);
    if (pg !== null) {
        const pool = new pg.default.Pool({
            connectionString: url,
            max: CONNECTIONS,
            connectionTimeoutMillis: timeoutMs,
            fallback_application_name: "nevertwice",
            // A script that forgets close() still ends.
            allowExitOnIdle: true,
            keepAlive: true,
        });
        return pgPoolDriver(pool, { timeoutMs, owned: true });
    }
    const js = await load("postgres", failures);
    if (js !== null) {
        const options = { max: CONNECTIONS, prepare: false, idle_timeout: 30, connect_timeout: timeoutMs / 1_000 };
        return postgresJsDriver(js.default(url, { ...options, onnotice: () => { } }), { timeoutMs, owned: true });
    }
    throw configError(`a ledger in PostgreSQL needs a driver, and none is installed. Run: npm install pg (or: npm install postgres). Tried ${failures.join("; ")}.`);
}
async function load(name, failures) {
    try {
        return (await import(__rewriteRelativeImportExtension(name)));
    }
    catch (error) {
        failures.push(`${name}: ${messageOf(error).split("\n")[0]}`);
        return null;
    }
}
//# sourceMappingURL=postgres-driver.js.map