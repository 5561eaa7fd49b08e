/** Pages for people: each filter by the index that serves it, and a bounded number of rows however large the ledger. */
import type { ListQuery, Page, Stored } from "../../../core/store.ts";
import { checkLimit, decodeCursor, encodeCursor, intactPage } from "../../shared/scan.ts";
import { escapedArray, Parameters } from "./arrays.ts";
import { anyOf, groupsOf, type LeaseTables, lapsed, leasedRows } from "./groups.ts";
import { keyHex, keyRange } from "./key.ts";
import { attentionKinds, positionOf, type Row, selectList } from "./row.ts";
import type { Statement } from "./write.ts";

/**
 * One row more than asked for shows that there is another page. A filter that is not asked for is a null parameter: the
 * planner, which sees the values, drops it. So there are few texts, and a client that may only run known ones has all.
 */
export function listStatement(tables: LeaseTables, query: ListQuery, now: number): Statement {
  checkLimit(query.limit, "list");
  const parameters = new Parameters();
  const direction = query.order === "oldest" ? "ASC" : "DESC";
  const limit = parameters.add(String(query.limit + 1));
  const order = `ORDER BY r.created_at ${direction}, r.key ${direction} LIMIT ${limit}::bigint`;
  const where = filters(parameters, query).join(" AND ");
  const source = sourceOf(tables, parameters, query, { where, order, now: () => parameters.add(String(now)) });
  return {
    text: `${source.with}SELECT ${selectList("r")} FROM (${source.rows}) r ${order}`,
    values: parameters.values,
  };
}

export function pageOf(rows: readonly Row[], { limit }: ListQuery, decode: (row: Row) => Stored): Page {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const cursor = last === undefined || rows.length <= limit ? null : encodeCursor(positionOf(last));
  return intactPage(page, decode, cursor);
}

interface Parts {
  readonly where: string;
  readonly order: string;
  readonly now: () => string;
}

interface Source {
  readonly with: string;
  readonly rows: string;
}

function sourceOf(tables: LeaseTables, parameters: Parameters, query: ListQuery, parts: Parts): Source {
  const { where, order, now } = parts;
  const { table } = tables;
  if (query.lapsed === true) {
    const at = now();
    return {
      with: `WITH RECURSIVE ${groupsOf(table)} `,
      rows: leasedRows(tables, "r.*", `${lapsed(at)} AND ${where}`, at),
    };
  }
  const plain = `SELECT r.* FROM ${table} r WHERE ${where}`;
  // A scope, or the beginning of a key, names few rows: they are found by their own index, then sorted. So does a
  // provider's id: rows are looked at one after the other, or found by an index that somebody has made for it.
  if (query.scope !== undefined || query.providerIds !== undefined || keyPrefixSelects(query.keyPrefix))
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

function keyPrefixSelects(prefix: string | undefined): boolean {
  return prefix !== undefined && prefix.length >= SELECTIVE_PREFIX;
}

function filters(parameters: Parameters, query: ListQuery): string[] {
  const equals = (column: string, value: string | undefined) =>
    where(parameters, value, (text) => `${column} = ${text}`);
  const ids = query.providerIds === undefined ? undefined : escapedArray(query.providerIds);
  const states = query.states === undefined ? undefined : escapedArray(query.states);
  return [
    equals("r.tenant", query.tenant),
    equals("r.action", query.action),
    equals("r.scope", query.scope),
    equals("r.agent", query.agent),
    where(parameters, ids, (text) => `r.provider_id = ANY(${text}::text[])`),
    where(parameters, states, (text) => `r.state = ANY(${text}::text[])`),
    beginsWith(parameters, query.keyPrefix),
    after(parameters, query),
  ];
}

function where(parameters: Parameters, value: string | undefined, holds: (text: string) => string): string {
  const text = parameters.add(value ?? null);
  return `(${text} IS NULL OR ${holds(text)})`;
}

/** Two ranges of the primary key: real keys are digests, other texts begin with a zero byte. */
function beginsWith(parameters: Parameters, prefix: string | undefined): string {
  const { digests, texts } = prefix === undefined ? { digests: null, texts: null } : keyRange(prefix);
  const bytes = (hex: string | undefined) => `decode(${parameters.add(hex ?? null)}, 'hex')`;
  const text = `(r.key >= ${bytes(texts?.low)} AND r.key < ${bytes(texts?.end)} AND length(r.key) <> 32)`;
  const digest = `(r.key >= ${bytes(digests?.low)} AND r.key <= ${bytes(digests?.high)} AND length(r.key) = 32)`;
  return where(parameters, prefix, () => `${digest} OR ${text}`);
}

function after(parameters: Parameters, { cursor, order }: ListQuery): string {
  const from = cursor === undefined ? null : decodeCursor(cursor);
  const sign = order === "oldest" ? ">" : "<";
  const key = parameters.add(from === null ? null : keyHex(from.key));
  return where(parameters, from === null ? undefined : String(Math.floor(from.createdAt)), (text) => {
    const at = `${text}::bigint`;
    return `(r.created_at ${sign}= ${at} AND (r.created_at, r.key) ${sign} (${at}, decode(${key}, 'hex')))`;
  });
}
