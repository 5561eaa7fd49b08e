/** Pages for people: each filter by the index that serves it, and a bounded number of rows however large the ledger. */
import { checkLimit, decodeCursor, encodeCursor } from "../core/scan.js";
import { Parameters } from "./postgres-arrays.js";
import { anyOf, groupsOf, lapsed, leasedRows } from "./postgres-groups.js";
import { keyHex, keyRange } from "./postgres-key.js";
import { attentionKinds, selectList } from "./postgres-row.js";
/** One row more than asked for shows that there is another page. */
export function listStatement({ table, meta }, query, now) {
    checkLimit(query.limit, "list");
    const parameters = new Parameters();
    const direction = query.order === "oldest" ? "ASC" : "DESC";
    const order = `ORDER BY r.created_at ${direction}, r.key ${direction} LIMIT ${query.limit + 1}`;
    const where = filters(parameters, query).join(" AND ");
    const source = sourceOf({ table, meta }, parameters, query, { where, order, now: () => parameters.add(String(now)) });
    return {
        text: `${source.with}SELECT ${selectList("r")} FROM (${source.rows}) r ${order}`,
        values: parameters.values,
    };
}
export function pageOf(rows, { limit }) {
    const items = rows.slice(0, limit);
    const last = items.at(-1);
    return { items, cursor: last === undefined || rows.length <= limit ? null : encodeCursor(last.record) };
}
function sourceOf({ table, meta }, parameters, query, parts) {
    const { where, order, now } = parts;
    if (query.lapsed === true) {
        const at = now();
        return {
            with: `WITH RECURSIVE ${groupsOf(table)} `,
            rows: leasedRows({ table, meta }, "r.*", `${lapsed(at)} AND ${where}`, at),
        };
    }
    const plain = `SELECT r.* FROM ${table} r WHERE ${where}`;
    // A scope, or the beginning of a key, names few rows: they are found by their own index, then sorted.
    if (query.scope !== undefined || keyPrefixSelects(query.keyPrefix))
        return { with: "", rows: `${plain} ${order}` };
    const kinds = query.states?.map(attentionKinds);
    if (kinds?.every((kind) => kind !== null)) {
        return { with: "", rows: `${plain} AND ${anyOf(parameters, "r.attention", kinds.flat())} ${order}` };
    }
    return {
        with: `WITH RECURSIVE ${groupsOf(table)} `,
        rows: `SELECT l.* FROM groups g CROSS JOIN LATERAL (${plain} AND r.action = g.action AND r.keep_ms = g.keep_ms ${order}) l`,
    };
}
// nt1_ and three characters: one key in 32 768.
const SELECTIVE_PREFIX = 7;
function keyPrefixSelects(prefix) {
    return prefix !== undefined && prefix.length >= SELECTIVE_PREFIX;
}
function filters(parameters, query) {
    const where = ["true"];
    if (query.tenant !== undefined)
        where.push(`r.tenant = ${parameters.add(query.tenant)}`);
    if (query.action !== undefined)
        where.push(`r.action = ${parameters.add(query.action)}`);
    if (query.scope !== undefined)
        where.push(`r.scope = ${parameters.add(query.scope)}`);
    if (query.states !== undefined)
        where.push(anyOf(parameters, "r.state", query.states));
    if (query.keyPrefix !== undefined)
        where.push(beginsWith(parameters, query.keyPrefix));
    if (query.cursor !== undefined)
        where.push(after(parameters, query));
    return where;
}
/** Two ranges of the primary key: real keys are digests, other texts begin with a zero byte. */
function beginsWith(parameters, prefix) {
    const { digests, texts } = keyRange(prefix);
    const bytes = (hex) => `decode(${parameters.add(hex)}, 'hex')`;
    const text = `(r.key >= ${bytes(texts.low)} AND r.key < ${bytes(texts.end)} AND length(r.key) <> 32)`;
    if (digests === null)
        return text;
    return `((r.key >= ${bytes(digests.low)} AND r.key <= ${bytes(digests.high)} AND length(r.key) = 32) OR ${text})`;
}
function after(parameters, { cursor, order }) {
    const { createdAt, key } = decodeCursor(cursor);
    const sign = order === "oldest" ? ">" : "<";
    const at = `${parameters.add(String(Math.floor(createdAt)))}::bigint`;
    return `r.created_at ${sign}= ${at} AND (r.created_at, r.key) ${sign} (${at}, decode(${parameters.add(keyHex(key))}, 'hex'))`;
}
//# sourceMappingURL=postgres-list.js.map