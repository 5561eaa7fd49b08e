/** node-postgres: a Pool, or a Client of the ledger's own. */
import { createHash } from "node:crypto";
import { configError } from "../core/errors.js";
import { beginning } from "./postgres-connection.js";
import { answerWithin } from "./postgres-timeout.js";
export function isPgPool(value) {
    const pool = value;
    return (typeof pool === "object" &&
        pool !== null &&
        typeof pool.connect === "function" &&
        typeof pool.query === "function" &&
        typeof pool.totalCount === "number");
}
export function isPgClient(value) {
    const client = value;
    return (typeof client === "object" &&
        client !== null &&
        typeof client.query === "function" &&
        typeof client.on === "function" &&
        client.totalCount === undefined &&
        "processID" in client);
}
export function pgPoolDriver(pool, { timeoutMs, owned }) {
    // Without a listener, a server that restarts while a connection idles would end the process.
    if (owned)
        pool.on?.("error", () => { });
    const prepared = new Prepared(timeoutMs);
    const onClient = async (work) => {
        const client = await checkOut(pool, timeoutMs);
        let destroy = true;
        const onError = () => {
            destroy = true;
        };
        client.on("error", onError);
        try {
            const answer = await work(client);
            destroy = false;
            return answer;
        }
        catch (error) {
            // An error the server itself reported leaves the session sound; anything else (a timeout, a lost connection, a
            // failed rollback) does not, and closing it also ends what may still run on it.
            destroy = !isServerError(error);
            throw error;
        }
        finally {
            client.removeListener("error", onError);
            client.release(destroy);
        }
    };
    return {
        query: (text, values = []) => onClient((client) => run(client, text, values, timeoutMs)),
        count: (text, values) => onClient((client) => prepared.count(client, text, values)),
        transaction: (work, setup) => onClient((client) => transactionOn(client, { work, setup, timeoutMs })),
        listen: (options) => listenApart(pool, options, timeoutMs),
        close: async () => {
            if (owned)
                await pool.end();
        },
    };
}
/** A client that comes after we gave up goes straight back. */
async function checkOut(pool, timeoutMs) {
    const coming = pool.connect();
    return answerWithin(timeoutMs, coming, () => void coming.then((late) => late.release()).catch(() => { }));
}
export function pgClientDriver(given, timeoutMs) {
    const client = given;
    const prepared = new Prepared(timeoutMs);
    const checkIdle = () => {
        const status = given.getTransactionStatus?.() ?? "I";
        if (status === "I")
            return;
        throw configError("a transaction is open on the client that carries the ledger: its rollback would take the ledger's writes with it. Pass that client to the call as tx, and give the ledger a Pool or a client of its own.");
    };
    return {
        query: async (text, values = []) => {
            checkIdle();
            return run(client, text, values, timeoutMs);
        },
        count: async (text, values) => {
            checkIdle();
            return prepared.count(client, text, values);
        },
        transaction: async (work, setup) => {
            checkIdle();
            return transactionOn(client, { work, setup, timeoutMs });
        },
        listen: (options) => listenOn(client, options, timeoutMs),
        close: async () => { },
    };
}
async function run(client, text, values, timeoutMs) {
    const { rows } = await answerWithin(timeoutMs, client.query(text, values), () => { });
    return rows;
}
/**
 * Statements that the server parses and plans once, on sessions that are surely our own: 85 of 190 µs for a lone
 * caller's claim. Behind a pooler they go without a name. The name is a digest of the text, so that even a pooler that
 * was taken for a server could only ever run the statement that was meant.
 */
class Prepared {
    #timeoutMs;
    #names = new Map();
    #direct = null;
    constructor(timeoutMs) {
        this.#timeoutMs = timeoutMs;
    }
    async count(client, text, values) {
        this.#direct ??= await isDirect(client, this.#timeoutMs);
        if (!this.#direct)
            return this.#run(client.query(text, values));
        try {
            return await this.#run(client.query({ text, values, name: this.#nameOf(text) }));
        }
        catch (error) {
            if (!isUnprepared(error))
                throw error;
            // Not run at all: a pooler after all, or tables that were altered under a plan.
            this.#direct = false;
            return this.#run(client.query(text, values));
        }
    }
    async #run(answer) {
        return (await answerWithin(this.#timeoutMs, answer, () => { })).rowCount ?? 0;
    }
    #nameOf(text) {
        let name = this.#names.get(text);
        if (name === undefined) {
            name = `nevertwice_${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
            this.#names.set(text, name);
        }
        return name;
    }
}
/** A pooler hands out process ids of its own: a session whose id is not the backend's is not ours to keep. */
async function isDirect(client, timeoutMs) {
    const [row] = await run(client, "SELECT pg_backend_pid()::text AS c0", [], timeoutMs);
    return client.processID === Number(row?.c0);
}
/** No such statement, one of that name already, or a plan whose result changed. */
function isUnprepared(error) {
    return ["26000", "42P05", "0A000"].includes(String(error?.code));
}
async function transactionOn(client, { work, setup, timeoutMs }) {
    const query = (text, values = []) => run(client, text, values, timeoutMs);
    await query(beginning(setup));
    try {
        const answer = await work({ query });
        await query("COMMIT");
        return answer;
    }
    catch (error) {
        // On a session that is gone this fails too, and the first error is the one to tell.
        await query("ROLLBACK").catch(() => { });
        throw error;
    }
}
/** A five-character SQLSTATE: the server answered. 57P0x: it answered that it is going away. */
function isServerError(error) {
    const { code, severity } = (error ?? {});
    return (typeof code === "string" && typeof severity === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("57P"));
}
/** A connection beside the pool: one that listens must not be one of the pool's few. */
async function listenApart(pool, options, timeoutMs) {
    const Client = pool.Client;
    if (typeof Client !== "function" || pool.options === undefined)
        return null;
    const client = new Client(pool.options);
    const end = () => client.end().catch(() => { });
    client.on("error", options.lost);
    client.on("end", options.lost);
    try {
        await answerWithin(timeoutMs, client.connect(), () => void end());
        client.unref?.();
        const listening = await listenOn(client, options, timeoutMs);
        return { direct: listening.direct, stop: end };
    }
    catch (error) {
        await end();
        throw error;
    }
}
async function listenOn(client, options, timeoutMs) {
    const direct = await isDirect(client, timeoutMs);
    const onNotification = ({ channel, payload }) => {
        if (channel === options.channel)
            options.heard(payload ?? "");
    };
    client.on("notification", onNotification);
    if (direct)
        await run(client, `LISTEN "${options.channel}"`, [], timeoutMs);
    return {
        direct,
        stop: async () => {
            client.removeListener("notification", onNotification);
            if (direct)
                await run(client, `UNLISTEN "${options.channel}"`, [], timeoutMs).catch(() => { });
        },
    };
}
//# sourceMappingURL=postgres-driver-pg.js.map