/** The rows of a table in PostgreSQL or SQLite: read-only, in one snapshot, so many at a time. */
import { existsSync } from "node:fs";
import { configError, messageOf } from "../../core/errors.ts";
import { redact } from "../../core/redact.ts";
import { requireFile, requireInstalled } from "../../engine/installed-package.ts";
import { loadDriver } from "../../stores/sqlite/driver.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";

export interface TableQuery {
  /** "agent_actions", or "crm.agent_actions" with its schema. */
  readonly table: string;
  /** Rows come in the order of these columns, as far as the table has them. */
  readonly order: readonly string[];
  /** Columns that are read, checked also where the table has no rows. */
  readonly needs: readonly string[];
  /** Columns that are part of the key: bytes in them are no text that a program has. */
  readonly keys: readonly string[];
}

const ROWS_A_FETCH = 1_000;
const CONNECT_MS = 10_000;
const STATEMENT_MS = 120_000;

// ---- PostgreSQL ----

interface Connection {
  query(text: string): Promise<readonly Record<string, unknown>[]>;
  end(): Promise<unknown>;
}

interface PgModule {
  readonly Client: new (
    options: object,
  ) => {
    connect(): Promise<unknown>;
    query(text: string): Promise<{ readonly rows: Record<string, unknown>[] }>;
    end(): Promise<unknown>;
    on(event: "error", listener: () => void): unknown;
  };
}

type PostgresJs = (
  url: string,
  options: object,
) => {
  unsafe(text: string): Promise<readonly Record<string, unknown>[]>;
  end(options: object): Promise<unknown>;
};

async function connect(url: string): Promise<Connection> {
  const failures: string[] = [];
  const pg = optional<PgModule>("pg", failures);
  if (pg !== null) {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: STATEMENT_MS,
      fallback_application_name: "nevertwice import",
    });
    // Without a listener, a server that ends the session would end the process.
    client.on("error", () => {});
    await client.connect();
    return { query: async (text) => (await client.query(text)).rows, end: () => client.end() };
  }
  const js = optional<PostgresJs>("postgres", failures);
  if (js !== null) {
    // One connection: the transaction is on it.
    const sql = js(url, { max: 1, prepare: false, connect_timeout: CONNECT_MS / 1_000, onnotice: () => {} });
    return { query: (text) => sql.unsafe(text), end: () => sql.end({ timeout: 5 }) };
  }
  throw configError(
    `--from: reading a table of PostgreSQL needs a driver, and none is installed. Run: npm install pg (or: npm install postgres). Tried ${failures.join("; ")}.`,
  );
}

function optional<Module>(name: string, failures: string[]): Module | null {
  try {
    return requireInstalled(name) as Module;
  } catch (error) {
    failures.push(`${name}: ${messageOf(error).split("\n")[0]}`);
    return null;
  }
}

/** Rows as JSON, by the server itself: numbers and times as they are, in UTC. */
export async function* postgresRows(address: string, query: TableQuery): AsyncIterable<string> {
  const connection = await reached(() => connect(withoutSchema(address)));
  try {
    yield* reading(connection, query);
  } finally {
    await connection.end().catch(() => {});
  }
}

async function* reading(connection: Connection, query: TableQuery): AsyncIterable<string> {
  const { table, order, keys } = query;
  const ask = (text: string) => reached(() => connection.query(text));
  await ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  await ask(
    `SET LOCAL statement_timeout = ${STATEMENT_MS}; SET LOCAL lock_timeout = '10s'; SET LOCAL timezone = 'UTC'`,
  );
  const relation = table.split(".").map(quoted).join(".");
  const columns = (await ask(
    `SELECT attname AS name, atttypid IN (20, 1700) AS long, atttypid = 17 AS bytes FROM pg_attribute WHERE attrelid = to_regclass(${literal(relation)}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
  )) as readonly { readonly name: string; readonly long: boolean; readonly bytes: boolean }[];
  if (columns.length === 0) throw await noTable(table, ask);
  requireColumns(
    query,
    columns.map(({ name }) => name),
  );
  const bytes = columns.find((column) => column.bytes && keys.includes(column.name));
  if (bytes !== undefined) throw bytesInKey(table, bytes.name);
  // As drivers give them to a program: bigint and numeric are text, because JavaScript cannot hold all of them.
  const list = columns.map(({ name, long }) => (long ? `${quoted(name)}::text AS ${quoted(name)}` : quoted(name)));
  const by = orderBy(
    order,
    columns.map(({ name }) => name),
  );
  await ask(
    `DECLARE rows NO SCROLL CURSOR FOR SELECT row_to_json(t)::text AS row FROM (SELECT ${list.join(", ")} FROM ${relation}${by}) t`,
  );
  for (;;) {
    const rows = await ask(`FETCH ${ROWS_A_FETCH} FROM rows`);
    for (const { row } of rows) yield row as string;
    if (rows.length < ROWS_A_FETCH) break;
  }
  await ask("COMMIT");
}

function requireColumns({ table, needs }: TableQuery, columns: readonly string[]): void {
  const missing = needs.find((column) => !columns.includes(column));
  if (missing === undefined) return;
  throw new UsageError(
    `the table ${oneLine(table)} has no column ${oneLine(missing)}, which is needed. The columns are: ${columns.map(oneLine).join(", ")}. Nothing was imported.`,
  );
}

function bytesInKey(table: string, column: string): ProblemError {
  return new ProblemError(
    `the column ${oneLine(column)} of ${oneLine(table)} has bytes (BLOB, bytea) in it, and a key is text: the calls of your program would not find them. Nothing was imported. Import from a view that has the key as your program writes it.`,
  );
}

function orderBy(order: readonly string[], columns: readonly string[]): string {
  const by = order.filter((name) => columns.includes(name)).map(quoted);
  return by.length === 0 ? "" : ` ORDER BY ${by.join(", ")}`;
}

async function noTable(table: string, ask: Connection["query"]): Promise<UsageError> {
  const found = await ask(
    "SELECT relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname = ANY (current_schemas(false)) ORDER BY 1 LIMIT 20",
  );
  return missingTable(
    table,
    found.map(({ name }) => String(name)),
  );
}

function missingTable(table: string, there: readonly string[]): UsageError {
  const list =
    there.length === 0 ? "There is none in its default schema." : `The tables are: ${there.map(oneLine).join(", ")}.`;
  return new UsageError(
    `--from has no table ${oneLine(table)}. ${list} Name it with --table <name>, or --table <schema>.<name>.`,
  );
}

/** Our own word in the URL of a ledger, which no driver knows. */
function withoutSchema(address: string): string {
  if (!URL.canParse(address))
    throw new UsageError(
      "--from: the URL cannot be read. Write postgres://user:password@host:5432/database, with special characters in the password percent-encoded.",
    );
  const url = new URL(address);
  url.searchParams.delete("schema");
  return url.href;
}

async function reached<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof UsageError || error instanceof ProblemError) throw error;
    if ((error as { code?: unknown }).code === "CONFIG") throw error;
    throw new ProblemError(`--from could not be read: ${redact(messageOf(error))}. Nothing was imported.`, {
      cause: error,
    });
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

// ---- SQLite ----

interface ReadOnlyDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): {
    setReadBigInts(on: boolean): unknown;
    all(...values: unknown[]): unknown[];
    iterate(): Iterable<Record<string, unknown>>;
  };
  close(): void;
}

export async function* sqliteRows(path: string, query: TableQuery): AsyncIterable<string> {
  const { table, order, keys } = query;
  if (!existsSync(path)) throw new UsageError(`--from: there is no file ${oneLine(path)}.`);
  const { file } = loadDriver("--from sqlite:");
  const { DatabaseSync } = requireFile(file) as {
    DatabaseSync: new (path: string, options: object) => ReadOnlyDatabase;
  };
  const db = await reached(async () => new DatabaseSync(path, { readOnly: true }));
  try {
    const columns = await reached(async () => {
      db.exec("PRAGMA busy_timeout = 10000; BEGIN");
      return db.prepare("SELECT name FROM pragma_table_info(?) ORDER BY cid").all(table) as { name: string }[];
    });
    if (columns.length === 0) throw missingTable(table, tablesOf(db));
    const names = columns.map(({ name }) => name);
    requireColumns(query, names);
    for (const key of keys.filter((name) => names.includes(name))) {
      const found = db.prepare(`SELECT 1 FROM ${quoted(table)} WHERE typeof(${quoted(key)}) = 'blob' LIMIT 1`).all();
      if (found.length > 0) throw bytesInKey(table, key);
    }
    const by = orderBy(order, names);
    const statement = db.prepare(`SELECT * FROM ${quoted(table)}${by}`);
    statement.setReadBigInts(true);
    for (const row of statement.iterate()) yield JSON.stringify(row, asJson);
    db.exec("COMMIT");
  } catch (error) {
    // Statements that were not read to their end would keep the lock beyond close().
    try {
      db.exec("ROLLBACK");
    } catch {}
    throw await reached(() => Promise.reject(error)).catch((known: unknown) => known);
  } finally {
    db.close();
  }
}

function tablesOf(db: ReadOnlyDatabase): string[] {
  const found = db.prepare("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1 LIMIT 20").all();
  return (found as { name: string }[]).map(({ name }) => name);
}

function asJson(_name: string, value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : value;
}
