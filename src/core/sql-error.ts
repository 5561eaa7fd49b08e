/**
 * What a database's error says about the statement it answers. The server rolls back before it reports one of these, so
 * the statement, and the transaction around it, surely wrote nothing. That is all it says: about an effect elsewhere
 * (a mail, a charge) the same attempt may have had before, a database knows nothing.
 */

/** retry: worth another try as it is · refused: until the row, the statement or the database has been changed */
export type SqlMeaning = "retry" | "refused";

export interface SqlError {
  readonly state: string;
  readonly meaning: SqlMeaning;
  /** The answer came by HTTP (PostgREST), so one request of the attempt was the statement itself. */
  readonly overHttp: boolean;
}

const UNIQUE_VIOLATION = "23505";

// serialization_failure, deadlock_detected, cannot_connect_now, too_many_connections, lock_not_available
const RETRY: ReadonlySet<string> = new Set(["40001", "40P01", "57P03", "53300", "55P03"]);
// PostgREST: no connection, no schema cache, no free connection in time. None of them reached the database.
const RETRY_POSTGREST: ReadonlySet<string> = new Set(["PGRST000", "PGRST002", "PGRST003"]);
// Prisma words the commonest in codes of its own.
const PRISMA: Readonly<Record<string, string>> = {
  P2002: UNIQUE_VIOLATION,
  P2003: "23503",
  P2004: "23000",
  P2011: "23502",
  P2034: "40001",
};
// Unique violations of other databases: only `exists` reads them. SQLite's two extended codes, and MySQL's.
const UNIQUE_ELSEWHERE: ReadonlySet<unknown> = new Set([
  "SQLITE_CONSTRAINT_UNIQUE",
  "SQLITE_CONSTRAINT_PRIMARYKEY",
  "ER_DUP_ENTRY",
]);
const SQLITE_UNIQUE: ReadonlySet<unknown> = new Set([2067, 1555]);

const MAX_DEPTH = 5;

/** This error alone, without its causes; undefined: it is none of a database that is listed here. */
export function sqlErrorOf(error: object): SqlError | undefined {
  const state = sqlStateOf(error);
  if (state === undefined) return undefined;
  const meaning = meaningOf(state);
  return meaning === undefined ? undefined : { state, meaning, overHttp: isPostgrest(error) };
}

/** Also inside what an ORM wrapped around it. */
export function isUniqueViolation(error: unknown): boolean {
  let inner: unknown = error;
  for (let depth = 0; depth < MAX_DEPTH && typeof inner === "object" && inner !== null; depth += 1) {
    const code = get(inner, "code");
    if (sqlStateOf(inner) === UNIQUE_VIOLATION || UNIQUE_ELSEWHERE.has(code)) return true;
    if (code === "ERR_SQLITE_ERROR" && SQLITE_UNIQUE.has(get(inner, "errcode"))) return true;
    inner = get(inner, "cause");
  }
  return false;
}

function meaningOf(state: string): SqlMeaning | undefined {
  if (RETRY.has(state) || RETRY_POSTGREST.has(state)) return "retry";
  // Data exceptions; constraints; syntax errors, missing tables and missing rights.
  return /^(22|23|42)/.test(state) ? "refused" : undefined;
}

/** By more than a code of five characters: EPIPE and exit codes are that too. */
function sqlStateOf(error: object): string | undefined {
  const code = get(error, "code");
  if (typeof code !== "string") return undefined;
  if (/^P\d{4}$/.test(code)) return prismaState(error, code);
  if (RETRY_POSTGREST.has(code)) return code;
  if (!/^\d[0-9A-Z]{4}$/.test(code)) return undefined;
  // pg, postgres.js and what copies their properties (TypeORM, Knex) have a severity; PostgREST has details and hint.
  return typeof get(error, "severity") === "string" || isPostgrest(error) ? code : undefined;
}

function isPostgrest(error: object): boolean {
  return get(error, "name") === "PostgrestError" || ("details" in error && "hint" in error && !("severity" in error));
}

function prismaState(error: object, code: string): string | undefined {
  const name = get(error, "name");
  if (typeof name !== "string" || !name.startsWith("Prisma")) return undefined;
  // The server's own code, in a place that depends on the engine.
  const meta = inside(error, "meta");
  const adapter = inside(inside(meta, "driverAdapterError"), "cause");
  const state = (adapter && get(adapter, "originalCode")) ?? (meta && get(meta, "code"));
  if (typeof state === "string" && /^\d[0-9A-Z]{4}$/.test(state)) return state;
  return Object.hasOwn(PRISMA, code) ? PRISMA[code] : undefined;
}

function inside(target: object | undefined, key: string): object | undefined {
  const value = target && get(target, key);
  return typeof value === "object" && value !== null ? value : undefined;
}

function get(target: object, key: string): unknown {
  try {
    return (target as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
