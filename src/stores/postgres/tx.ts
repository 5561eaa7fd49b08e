/**
 * The caller's own transaction, by shape: `pg`, postgres.js, Kysely, Drizzle, Prisma, Knex, TypeORM, or anything with
 * `query(text, values)`. Each offers some way to run a statement with values; that is all that is needed.
 */
import { configError } from "../../core/errors.ts";
import { isPgPool, isPostgresJs, isPostgresJsTransaction } from "./client/clients.ts";
import type { Connection } from "./client/connection.ts";
import { queryJs } from "./client/postgres-js.ts";
import type { Row, SqlText } from "./sql/row.ts";

type Run = (text: string, values: readonly SqlText[]) => Promise<Row[]>;
type Callable = (...args: unknown[]) => unknown;

/** What `tx` is, and how to run a statement in it. */
export function transactionConnection(tx: unknown): Connection {
  const run = runnerOf(tx);
  return { query: async (text, values = []) => run(text, values) };
}

function runnerOf(tx: unknown): Run {
  refuseWhatIsNoTransaction(tx);
  const { can, call } = methodsOf(tx);
  if (isPostgresJsTransaction(tx)) return (text, values) => queryJs(tx, text, values);
  if (can("$queryRawUnsafe")) return prisma(call);
  if (can("executeQuery") && can("selectFrom")) return kysely(call);
  if (can("raw") && can("savepoint")) return knex(call);
  if (can("execute") && can("transaction") && can("select")) return drizzle(call);
  // pg's Client and PoolClient, TypeORM's EntityManager and QueryRunner, and adapters of the user's own.
  if (can("query")) return async (text, values) => rowsOf(await call("query", text, values));
  throw notATransaction();
}

function methodsOf(tx: unknown) {
  const target = tx as Record<string, unknown>;
  const known = (typeof tx === "object" || typeof tx === "function") && tx !== null;
  return {
    can: (name: string) => known && typeof target[name] === "function",
    call: (name: string, ...args: unknown[]) => (target[name] as Callable)(...args),
  };
}

type Call = ReturnType<typeof methodsOf>["call"];

function prisma(call: Call): Run {
  // What returns nothing must not go through $queryRaw's reader.
  return async (text, values) => {
    const returns = /^(SELECT|WITH|INSERT|UPDATE|DELETE)\b/.test(text);
    return rowsOf(await call(returns ? "$queryRawUnsafe" : "$executeRawUnsafe", text, ...values));
  };
}

let queries = 0;

function kysely(call: Call): Run {
  return async (sql, parameters) => {
    queries += 1;
    const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
    return rowsOf(
      await call("executeQuery", { sql, parameters, query, queryId: { queryId: `nevertwice-${queries}` } }),
    );
  };
}

/** Anything that can say its SQL and its parameters is a query to Drizzle. */
function drizzle(call: Call): Run {
  return async (sql, params) => {
    const query = { getSQL: () => query, toQuery: () => ({ sql, params: [...params], typings: [] }) };
    return rowsOf(await call("execute", query));
  };
}

/** Knex counts question marks: each $n becomes one, its value said as often as it is used. */
function knex(call: Call): Run {
  return async (text, values) => {
    const bindings: SqlText[] = [];
    const sql = text.replace(/\$(\d+)/g, (_, n: string) => {
      bindings.push(values[Number(n) - 1] as SqlText);
      return "?";
    });
    return rowsOf(await call("raw", sql, bindings));
  };
}

/** A list of rows, a result with rows, or (TypeORM, after an UPDATE) a list and a count. */
function rowsOf(result: unknown): Row[] {
  if (Array.isArray(result)) {
    return (result.length === 2 && Array.isArray(result[0]) ? result[0] : result) as Row[];
  }
  return ((result as { rows?: Row[] } | null)?.rows ?? []) as Row[];
}

function refuseWhatIsNoTransaction(tx: unknown): void {
  if (isPgPool(tx)) {
    throw configError(
      "tx is a Pool, whose every query may run on another connection. Check one out (await pool.connect()), run BEGIN on it, and pass that client.",
    );
  }
  if (isPostgresJs(tx) && !isPostgresJsTransaction(tx)) {
    throw configError(
      "tx is the sql of postgres.js outside a transaction. Pass the one that sql.begin(async (sql) => …) gives you.",
    );
  }
  const { isTransaction, isTransactionActive, queryRunner } = (tx ?? {}) as Record<string, unknown>;
  const runner = queryRunner as { isTransactionActive?: boolean } | undefined;
  const outside = isTransaction === false || isTransactionActive === false || runner?.isTransactionActive === false;
  if (outside || (queryRunner === undefined && isEntityManager(tx))) throw noTransaction();
}

/** TypeORM's: one without a query runner of its own takes a connection from the pool for every query. */
function isEntityManager(tx: unknown): boolean {
  const { can } = methodsOf(tx);
  return can("getRepository") && can("query");
}

export function noTransaction() {
  return configError(
    "tx has no transaction open. Begin one first (BEGIN, or your library's transaction function), pass what it gives you, and commit after the call.",
  );
}

function notATransaction() {
  return configError(
    "tx is not a PostgreSQL transaction: pass a pg client, or the transaction that postgres.js, Kysely, Drizzle, Prisma, Knex or TypeORM gives you, or any object with query(text, values).",
  );
}
