/** Bringing the schema up to date: once, however many processes start at the same time. */
import { performance } from "node:perf_hooks";
import { configError } from "../../core/errors.ts";
import type { Observation } from "../shared/server-clock.ts";
import type { Connection, Driver } from "./client/connection.ts";
import { sqlState } from "./errors.ts";
import { ownershipCheck } from "./ownership.ts";
import { lockName } from "./script.ts";
import type { Row } from "./sql/row.ts";
import {
  grantSql,
  isServed,
  migrationSql,
  quoteName,
  quoteText,
  rlsSql,
  SCHEMA_VERSION,
  type SchemaState,
} from "./sql/schema.ts";
import { functionName, UNKNOWN_STATEMENT } from "./supabase/client.ts";

export interface Found {
  /** Null: there is no ledger yet. */
  readonly state: SchemaState | null;
  readonly rls: boolean;
  /** Its policies are those of an earlier release, which took an empty setting for a tenant. */
  readonly oldPolicies: boolean;
  readonly standby: boolean;
  readonly clock: Observation;
}

export const CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000)::text";

/** One statement that fails on nothing: what is there, and what time it is there. */
export async function look(connection: Connection, schema: string): Promise<Found> {
  const askedAt = performance.now();
  const [row] = await connection.query(
    `SELECT ${CLOCK} AS c0, pg_is_in_recovery()::text AS c1,
       (SELECT c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'nevertwice_tenant')
        FROM pg_class c WHERE c.oid = to_regclass($1::text))::text AS c2,
       (SELECT count(*) = 2 FROM pg_attribute a
        WHERE a.attrelid = to_regclass($2::text) AND a.attname IN ('name', 'value') AND NOT a.attisdropped)::text AS c3,
       EXISTS (SELECT FROM pg_policy p WHERE p.polrelid IN (to_regclass($1::text), to_regclass($3::text)) AND p.polname = 'nevertwice_tenant'
         AND pg_get_expr(p.polqual, p.polrelid) NOT ILIKE '%nullif%')::text AS c4`,
    [`${quoteName(schema)}.records`, `${quoteName(schema)}.meta`, `${quoteName(schema)}.watch`],
  );
  const clock = { askedAt, answeredAt: performance.now(), serverMs: Number(row?.c0) };
  const { c1, c2, c3, c4 } = row as Row;
  return {
    clock,
    standby: c1 === "true",
    rls: c2 === "true",
    oldPolicies: c4 === "true",
    state: c3 === "true" ? await readState(connection, schema) : null,
  };
}

export async function readState(connection: Connection, schema: string): Promise<SchemaState> {
  const rows = await connection.query(`SELECT name AS c0, value AS c1 FROM ${quoteName(schema)}.meta`);
  const meta = new Map(rows.map(({ c0, c1 }) => [c0, c1]));
  return {
    version: Number(meta.get("schema_version") ?? 0),
    readableSince: Number(meta.get("readable_since") ?? 1),
    ledgerId: meta.get("ledger_id") ?? "",
  };
}

export interface MigrateOptions {
  readonly schema: string;
  readonly rls: boolean;
  /** For messages. */
  readonly where: string;
  /** Whether supabase-js is to be able to use it. */
  readonly supabase?: boolean;
}

/** What `migrate` would run now; empty: the schema is up to date. */
export function pending(found: Found, options: MigrateOptions): string[] {
  const { state } = found;
  if (state !== null) isServed(state, options.where);
  const from = state?.version ?? 0;
  const statements = from >= SCHEMA_VERSION ? [] : migrationSql(options.schema, from);
  return options.rls && lacksPolicies(found) ? [...statements, ...rlsSql(options.schema)] : statements;
}

export function lacksPolicies({ rls, oldPolicies }: Found): boolean {
  return !rls || oldPolicies;
}

/**
 * All of it or nothing, `more` included: what one statement grants, another one revokes, and nobody may come between. Who
 * comes second finds it done. The check comes first, and again at the end: another role may have made the schema meanwhile.
 */
export async function migrate(
  driver: Driver,
  options: MigrateOptions,
  more: readonly string[] = [],
): Promise<readonly string[]> {
  const [server] = await driver.query("SELECT pg_is_in_recovery()::text AS c0");
  if (server?.c0 === "true") throw readOnlyReplica(options.where);
  const check = whoseItIs(options);
  return driver.transaction(async (connection) => {
    // Of the transaction, not of the session: it goes with the transaction, also behind a pooler.
    await connection.query(`SELECT pg_advisory_xact_lock(hashtext(${quoteText(lockName(options.schema))}))::text`);
    await connection.query(check);
    const statements = [...pending(await look(connection, options.schema), options), ...more];
    for (const statement of statements) await connection.query(statement);
    if (statements.length > 0) await connection.query(check);
    return statements;
  });
}

export function whoseItIs({ schema, supabase }: MigrateOptions): string {
  return ownershipCheck(schema, supabase ? functionName(schema) : null, UNKNOWN_STATEMENT);
}

/** The schema as this store is to use it: migrated where it may, or an error that says who has to. */
export async function ready(driver: Driver, mode: "auto" | "manual", options: MigrateOptions): Promise<Found> {
  const found = await look(driver, options.schema);
  if (found.state !== null && isServed(found.state, options.where) && (found.rls || !options.rls)) {
    if (mode === "manual" || found.state.version >= SCHEMA_VERSION) return found;
  }
  if (found.standby) throw readOnlyReplica(options.where);
  if (mode === "manual") throw notMigrated(found, options);
  try {
    await migrate(driver, options);
  } catch (error) {
    if (sqlState(error) === "42501") throw mayNotMigrate(options, error);
    throw error;
  }
  return look(driver, options.schema);
}

function migrateCommand({ schema, rls, supabase }: MigrateOptions): string {
  return `nevertwice migrate --store <url>${schema === "nevertwice" ? "" : ` --schema ${schema}`}${rls ? " --rls" : ""}${supabase ? " --supabase" : ""}`;
}

function notMigrated({ state, rls }: Found, options: MigrateOptions) {
  const what =
    state === null
      ? `there is no ledger in ${options.where} yet`
      : options.rls && !rls
        ? `the ledger ${options.where} has no row-level security, and the program asks for it`
        : `the ledger ${options.where} has schema ${state.version}, and this release needs ${SCHEMA_VERSION}`;
  return configError(
    `${what}, and nobody but you is to change that (migrate: "manual"). Run: ${migrateCommand(options)}`,
  );
}

function mayNotMigrate(options: MigrateOptions, cause: unknown) {
  return configError(
    `the ledger ${options.where} needs a migration, and this role may not make it. As a role that may, run: ${migrateCommand(options)}; then let this one use it: ${grantSql(options.schema, "<role>").join("; ")};`,
    cause,
  );
}

function readOnlyReplica(where: string) {
  return configError(
    `${where} is a read-only replica: claims cannot be written to it. Connect to the primary (in a URL of several hosts add target_session_attrs=read-write).`,
  );
}
