/** What postgresStore() takes, checked before anything is opened. */
import { durationMs } from "../core/duration.js";
import { configError, messageOf } from "../core/errors.js";
import { isPostgresJs, isPostgresJsTransaction } from "./postgres-driver-js.js";
import { isPgClient, isPgPool } from "./postgres-driver-pg.js";
const DEFAULT_SCHEMA = "nevertwice";
const DEFAULT_TIMEOUT = "10s";
const KNOWN = new Set("url pool client sql schema migrate tenant rls timeout listen".split(" "));
export function checkOptions(options) {
    for (const option of Object.keys(options)) {
        if (!KNOWN.has(option))
            throw wrong(`there is no option ${JSON.stringify(option)}. The options are: ${[...KNOWN].join(", ")}`);
    }
    const { url, pool, client, sql, migrate = "auto", tenant, rls = false, listen = true } = options;
    if ([url, pool, client, sql].filter((given) => given !== undefined).length !== 1) {
        throw wrong("give exactly one of url, pool (a pg Pool), client (a pg Client) and sql (of postgres.js)");
    }
    checkClients(options);
    const parsed = url === undefined ? null : parseUrl(url);
    const schema = options.schema ?? parsed?.schema ?? DEFAULT_SCHEMA;
    if (typeof schema !== "string" || schema.trim() === "" || Buffer.byteLength(schema) > 63)
        throw wrong(`schema is ${JSON.stringify(schema)}; it takes a name of at most 63 bytes`);
    if (migrate !== "auto" && migrate !== "manual")
        throw wrong(`migrate is ${JSON.stringify(migrate)}; it takes "auto" or "manual"`);
    if (tenant !== undefined && typeof tenant !== "string")
        throw wrong("tenant takes a string");
    if (rls && tenant === undefined)
        throw wrong("rls needs tenant: row-level security shows a connection the rows of the tenant it names, and no others");
    const place = parsed?.name ?? `postgres (your ${pool ? "pool" : client ? "client" : "sql"})`;
    return {
        url: parsed?.url,
        pool,
        client,
        sql,
        name: schema === DEFAULT_SCHEMA ? place : `${place} schema ${schema}`,
        schema,
        migrate,
        tenant,
        rls,
        listen,
        timeoutMs: durationMs(options.timeout ?? DEFAULT_TIMEOUT, "postgresStore: timeout"),
    };
}
function checkClients({ pool, client, sql }) {
    if (pool !== undefined && !isPgPool(pool))
        throw wrong("pool is not a Pool of pg: it needs connect() and query()");
    if (client !== undefined && !isPgClient(client))
        throw wrong("client is not a Client of pg: it needs query() and on(). A Pool goes into pool");
    if (sql !== undefined && (!isPostgresJs(sql) || isPostgresJsTransaction(sql)))
        throw wrong("sql is not the sql of postgres.js, as postgres(url) returns it");
}
/** The name has no user and no password: it is shown in messages and logs. */
function parseUrl(text) {
    let url;
    try {
        url = new URL(text);
    }
    catch (error) {
        throw wrong(`url cannot be read (${messageOf(error)}). Write postgres://user:password@host:5432/database, with special characters in the password percent-encoded`);
    }
    if (url.protocol !== "postgres:" && url.protocol !== "postgresql:")
        throw wrong(`url begins with ${url.protocol}; write postgres://user:password@host:5432/database`);
    const schema = url.searchParams.get("schema") ?? undefined;
    url.searchParams.delete("schema");
    const { host, pathname } = url;
    return { url: url.href, name: `postgres://${host || "localhost"}${pathname}`, schema };
}
function wrong(what) {
    return configError(`postgresStore: ${what}.`);
}
//# sourceMappingURL=postgres-options.js.map