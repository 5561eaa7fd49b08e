import { Parameters } from "./postgres-arrays.js";
import { CLOCK } from "./postgres-migrate.js";
import { FIXED, fixedValues, MOVING, movingValues, YOUNG_MS } from "./postgres-row.js";
export function planPut(put, { hex, now, before }) {
    const { record, expected } = put;
    const way = expected === null ? "insert" : before === null ? "replace" : "settle";
    const rev = expected === null ? firstRevision(now) : expected + 1;
    const fixed = way === "settle" ? [] : fixedValues(record, hex);
    return { put, way, hex, rev, fixed, moving: movingValues(record, rev, now), before };
}
/** One that no earlier row of this key can have had, also after a sweep: time in ms, times 4096, plus chance. */
function firstRevision(now) {
    return Math.floor(now) * 4_096 + Math.floor(Math.random() * 4_096);
}
const ALL = [...FIXED, ...MOVING];
// FIXED begins with what names a row.
const NAMING = FIXED.slice(0, 2);
const REPLACED = [...FIXED.slice(2), ...MOVING];
const EXPECTED = { name: "expected", type: "bigint" };
const ATTENTION = MOVING.findIndex(({ name }) => name === "attention");
const insertRow = ({ fixed, moving }) => [...fixed, ...moving];
const replaceRow = ({ fixed, moving }) => [...fixed.slice(2), ...moving];
/** The columns of MOVING that differ from before in any of the rows. */
function changes(puts, now) {
    const changed = [];
    for (let at = 0; at < MOVING.length; at += 1) {
        const differs = puts.some(({ moving, before }) => moving[at] !== before?.[at]);
        // The sweep marks claims that are no longer young, behind our back.
        const unsure = (at === ATTENTION || at === ATTENTION + 1) && puts.some(({ put }) => put.record.createdAt < now - YOUNG_MS);
        if (differs || unsure)
            changed.push(at);
    }
    return changed;
}
/** Booleans stand in the text: a driver that knows the type would take the text "f" for true. */
function value(parameters, type, text) {
    if (text === null)
        return "NULL";
    if (type === "boolean")
        return text === "t" ? "true" : "false";
    const parameter = parameters.add(text);
    if (type === "bytea")
        return `decode(${parameter}, 'hex')`;
    return type === "text" ? parameter : `${parameter}::${type}`;
}
/** A lone caller pays for a statement as one would write it by hand: no arrays, no join, one of a few texts. */
export function singleWrite(table, planned, now) {
    const parameters = new Parameters();
    if (planned.way === "insert") {
        const row = insertRow(planned);
        const set = [...row.keys()].filter((at) => row[at] !== null);
        const values = set.map((at) => value(parameters, ALL[at]?.type, row[at]));
        return {
            text: `INSERT INTO ${table} (${set.map((at) => ALL[at]?.name).join(", ")}) VALUES (${values.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING`,
            values: parameters.values,
        };
    }
    const { put, hex, way } = planned;
    const columns = way === "settle" ? MOVING : REPLACED;
    const row = way === "settle" ? planned.moving : replaceRow(planned);
    const set = way === "settle" ? changes([planned], now) : [...row.keys()];
    const assign = set.map((at) => {
        const { name, type } = columns[at];
        return `${name} = ${value(parameters, type, row[at])}`;
    });
    const [key, tenant, rev] = [
        value(parameters, "bytea", hex),
        value(parameters, "text", put.record.tenant),
        value(parameters, "bigint", String(put.expected)),
    ];
    return {
        text: `UPDATE ${table} SET ${assign.join(", ")} WHERE key = ${key} AND tenant = ${tenant} AND rev = ${rev}`,
        values: parameters.values,
    };
}
/** The same, with the server's clock on the way back. */
export function timed({ text, values }) {
    return { text: `${text} RETURNING ${CLOCK} AS clock`, values };
}
/**
 * The batch comes sorted by key, and rows are locked in that order: first the new ones, then the existing ones, so that
 * two batches never wait for each other in a circle. It answers with the keys that won only where not all did.
 */
export function batchWrite(table, puts, now) {
    const parameters = new Parameters();
    const of = (way) => puts.filter((put) => put.way === way);
    const parts = [];
    const inserts = of("insert");
    if (inserts.length > 0)
        parts.push(`inserted AS (${insertAll(table, parameters, inserts)} RETURNING r.key)`);
    const update = (name, rows, columns, row) => {
        if (rows.length === 0)
            return;
        const after = parts.length === 0 ? "" : ` AND (SELECT count(*) FROM ${parts.at(-1)?.split(" ")[0]}) >= 0`;
        parts.push(`${name} AS (${updateAll(table, parameters, rows, columns, row)}${after} RETURNING r.key)`);
    };
    const settles = of("settle");
    const changed = changes(settles, now);
    update("settled", settles, changed.map((at) => MOVING[at]), ({ moving }) => changed.map((at) => moving[at]));
    update("replaced", of("replace"), REPLACED, replaceRow);
    const all = parts.map((part) => `SELECT key FROM ${part.split(" ")[0]}`).join(" UNION ALL ");
    return {
        text: `WITH ${parts.join(", ")}, won AS (${all})
SELECT ${CLOCK} AS clock, count(*)::text AS c1, CASE WHEN count(*) < ${puts.length} THEN string_agg(encode(key, 'hex'), ',') END AS c2 FROM won`,
        values: parameters.values,
    };
}
function insertAll(table, parameters, puts) {
    const rows = puts.map(insertRow);
    const columns = ALL.map((column, at) => ({ column, at })).filter(({ at }) => rows.some((row) => row[at] !== null));
    const names = columns.map(({ column }) => column.name).join(", ");
    const from = parameters.rows("i", columns.map(({ column }) => column), rows.map((row) => columns.map(({ at }) => row[at])));
    return `INSERT INTO ${table} AS r (${names}) SELECT i.* FROM ${from} ON CONFLICT (key, tenant) DO NOTHING`;
}
function updateAll(table, parameters, puts, columns, row) {
    const rows = puts.map((put) => [put.hex, put.put.record.tenant, String(put.put.expected), ...row(put)]);
    const set = columns.map(({ name }) => `${name} = i.${name}`).join(", ");
    const from = parameters.rows("i", [...NAMING, EXPECTED, ...columns], rows);
    return `UPDATE ${table} r SET ${set} FROM ${from} WHERE r.key = i.key AND r.tenant = i.tenant AND r.rev = i.expected`;
}
/** Who won, by hexadecimal key; null: everybody. */
export function winners({ c1, c2 }, size) {
    return Number(c1) === size ? null : new Set((c2 ?? "").split(","));
}
//# sourceMappingURL=postgres-write.js.map