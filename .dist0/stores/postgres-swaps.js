/** Reads and compare-and-swaps on any connection: the pool's, or the caller's own transaction. */
import { performance } from "node:perf_hooks";
import { configError, NevertwiceError } from "../core/errors.js";
import { Parameters } from "./postgres-arrays.js";
import { isTransient } from "./postgres-errors.js";
import { keyHex } from "./postgres-key.js";
import { Lineage } from "./postgres-lineage.js";
import { CLOCK } from "./postgres-migrate.js";
import { decodeRow, selectList } from "./postgres-row.js";
import { batchWrite, planPut, singleWrite, timed, winners } from "./postgres-write.js";
// A deadlock's victim has written nothing: it goes again, a few times.
const TRIES = 4;
const KEYS = [{ name: "key", type: "bytea" }];
const ROWS_OF = [...KEYS, { name: "tenant", type: "text" }];
export class Swaps {
    #options;
    #lineage = new Lineage();
    constructor(options) {
        this.#options = options;
    }
    /** A row as it was just read: what the table holds of it need not be sent again. */
    seen(row) {
        const stored = decodeRow(row, this.#options.name);
        this.#lineage.keep(stored, row.c0);
        return stored;
    }
    async read(run, keys) {
        if (keys.length === 0)
            return [];
        const hexes = keys.map(keyHex);
        const { text, values } = this.#select([...new Set(hexes)], KEYS, (hex) => [hex]);
        const found = this.#byHex(await this.#timed(run, { text, values }));
        return hexes.map((hex) => found.get(hex) ?? null);
    }
    /** Each put on its own; a key that comes twice is put twice, one after the other. */
    async write(run, puts, inTransaction = false) {
        const results = new Array(puts.length);
        const now = this.#options.clock.instant().now;
        let waiting = puts.map((put, at) => ({ at, planned: this.#plan(put, now) }));
        while (waiting.length > 0) {
            const keys = new Set();
            const batch = waiting.filter(({ planned: { hex } }) => !keys.has(hex) && keys.add(hex));
            if (batch.length < waiting.length)
                waiting = waiting.filter((one) => !batch.includes(one));
            else
                waiting = [];
            // Sorted, so that no two batches lock rows in opposite order.
            batch.sort((a, b) => (a.planned.hex < b.planned.hex ? -1 : a.planned.hex > b.planned.hex ? 1 : 0));
            const answers = await this.#swap(run, batch.map(({ planned }) => planned), inTransaction);
            for (const [i, { at }] of batch.entries())
                results[at] = answers[i];
        }
        return results;
    }
    #plan(put, now) {
        const { tenant } = this.#options;
        if (tenant !== undefined && put.record.tenant !== tenant)
            throw foreign(tenant, put);
        const hex = this.#lineage.hexOf(put.record.key);
        return planPut(put, { hex, now, before: this.#lineage.before(put, now) });
    }
    async #swap(run, batch, inTransaction) {
        const { table, clock } = this.#options;
        const now = clock.instant().now;
        const tries = inTransaction ? 1 : TRIES;
        if (batch.length === 1) {
            const won = await this.#swapOne(run, singleWrite(table, batch[0], now), tries);
            return this.#settle(run, batch, won ? null : new Set());
        }
        const [answer] = await this.#patiently(tries, () => this.#timed(run, batchWrite(table, batch, now)));
        return this.#settle(run, batch, winners(answer, batch.length));
    }
    async #swapOne(run, statement, tries) {
        const { count } = run;
        if (count === undefined || this.#options.clock.stale) {
            return (await this.#patiently(tries, () => this.#timed(run, timed(statement)))).length === 1;
        }
        return (await this.#patiently(tries, () => count(statement.text, statement.values))) === 1;
    }
    async #settle(run, batch, won) {
        const ok = ({ put, rev, hex, moving }) => {
            this.#lineage.keep({ record: put.record, version: rev }, hex, moving);
            return { ok: true, version: rev };
        };
        if (won === null)
            return batch.map(ok);
        const lost = batch.filter(({ hex }) => !won.has(hex));
        // A statement of its own: the row that stood in the way may have come after the first one's snapshot.
        const { text, values } = this.#select(lost, ROWS_OF, ({ hex, put }) => [hex, put.record.tenant]);
        const current = this.#byHex(await this.#timed(run, { text, values }));
        return batch.map((put) => (won.has(put.hex) ? ok(put) : { ok: false, current: current.get(put.hex) ?? null }));
    }
    async #patiently(tries, ask) {
        for (let left = tries;; left -= 1) {
            try {
                return await ask();
            }
            catch (error) {
                if (left <= 1 || !isTransient(error))
                    throw error;
            }
        }
    }
    #select(items, columns, row) {
        const { table, tenant } = this.#options;
        const parameters = new Parameters();
        const from = items.length === 1
            ? this.#one(parameters, row(items[0]))
            : `${parameters.rows("i", columns, items.map(row))} JOIN ${table} r ON ${columns.map(({ name }) => `r.${name} = i.${name}`).join(" AND ")}`;
        const own = tenant === undefined ? "" : ` AND r.tenant = ${parameters.add(tenant)}`;
        const where = items.length === 1 ? own : own.replace(" AND", " WHERE");
        return {
            text: `SELECT ${CLOCK} AS clock, ${selectList("r")} FROM ${from}${where}`,
            values: parameters.values,
        };
    }
    #one(parameters, [hex, tenant]) {
        const key = `${this.#options.table} r WHERE r.key = decode(${parameters.add(hex)}, 'hex')`;
        return tenant === undefined ? key : `${key} AND r.tenant = ${parameters.add(tenant)}`;
    }
    #byHex(rows) {
        const found = new Map();
        for (const row of rows) {
            const stored = this.seen(row);
            const hex = row.c0;
            if (found.has(hex))
                throw ambiguous(stored.record.key);
            found.set(hex, stored);
        }
        return found;
    }
    /** Every answer that tells the server's time is a new measure of it. */
    async #timed(run, { text, values }) {
        const askedAt = performance.now();
        const rows = await run.query(text, values);
        const clock = rows[0]?.clock;
        if (typeof clock === "string")
            this.#options.clock.observe({ serverMs: Number(clock), askedAt, answeredAt: performance.now() });
        return rows;
    }
}
function foreign(tenant, { record }) {
    return configError(`this store is confined to the tenant ${JSON.stringify(tenant)}, and a record of another was to be written. Make one postgresStore() per tenant, or one without tenant.`, new NevertwiceError("CONFIG", "another tenant's record", { key: record.key }));
}
/** A key is a digest over its tenant: no two tenants come by one. Somebody wrote to the table. */
function ambiguous(key) {
    return new NevertwiceError("STORE_UNAVAILABLE", "two tenants hold records under one key, which nevertwice never writes. Nothing was run. Find out who writes to the ledger's table, or confine the store: postgresStore({ tenant }).", { key });
}
//# sourceMappingURL=postgres-swaps.js.map