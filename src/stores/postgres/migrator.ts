/** `nevertwice migrate`: the schema's migrations by themselves, with a role that may make them. */
import { openDriver } from "./client/driver.ts";
import { storeError } from "./errors.ts";
import { dropFunctionsSql, functionsSql } from "./functions/index.ts";
import { lacksPolicies, look, migrate, pending, whoseItIs } from "./migrate.ts";
import { checkOptions } from "./options.ts";
import { migrationScript } from "./script.ts";
import { accessSql, quoteName, quoteText, rlsSql, SCHEMA_VERSION } from "./sql/schema.ts";
import { supabaseSql } from "./supabase/client.ts";
import { knownStatements } from "./supabase/statements.ts";

export interface MigrationOptions {
  /** Undefined: only say what a new ledger takes. */
  readonly url: string | undefined;
  readonly schema: string | undefined;
  readonly rls: boolean;
  /** With the function that supabase-js calls. */
  readonly supabase: boolean;
  /** A role to be allowed to use the ledger. */
  readonly grant: string | undefined;
  /** The functions and the view for callers in SQL: made or replaced, removed, or left as they are (undefined). */
  readonly functions?: "make" | "drop" | undefined;
  /** With functions: what the programs give as nevertwice({ secret }). */
  readonly secret?: string | undefined;
  /** With functions: the programs give none, whatever the records look like. */
  readonly noSecret?: boolean;
  /** With functions: a role that may enqueue by SQL, and nothing else. */
  readonly grantEnqueue?: string | undefined;
  readonly dryRun: boolean;
}

export interface MigrationReport {
  readonly store: string;
  readonly schema: string;
  /** The version of the schema after it. */
  readonly version: number;
  /** What was run. Where nothing was: what would be, as one statement that may be applied more than once. */
  readonly statements: readonly string[];
  readonly ran: boolean;
}

export async function performMigration(options: MigrationOptions): Promise<MigrationReport> {
  const { url, rls, grant, dryRun } = options;
  const version = SCHEMA_VERSION;
  // Any URL will do where none is used: the schema's name is checked with it.
  const settings = checkOptions({
    url: url ?? "postgres://localhost/",
    migrate: "manual",
    ...(options.schema !== undefined && { schema: options.schema }),
  });
  const { schema, name: store } = settings;
  const grants = grant === undefined ? [] : accessSql(schema, quoteName(grant));
  if (options.supabase) grants.push(...supabaseSql(schema, await knownStatements(schema)));
  grants.push(...functionStatements(options, schema));
  const where = { schema, rls, where: store, supabase: options.supabase };
  const check = whoseItIs(where);
  if (url === undefined) {
    const more = [...(rls ? rlsSql(schema) : []), ...grants];
    return { store, schema, version, statements: [migrationScript({ schema, from: 0, check, more })], ran: false };
  }
  const driver = await openDriver(settings);
  try {
    if (dryRun) {
      await driver.query(check);
      const found = await look(driver, schema);
      const lacks = pending(found, where).length > 0 || grants.length > 0;
      const more = [...(rls && lacksPolicies(found) ? rlsSql(schema) : []), ...grants];
      const script = migrationScript({ schema, from: found.state?.version ?? 0, check, more });
      return { store, schema, version, statements: lacks ? [script] : [], ran: false };
    }
    const statements = await migrate(driver, where, grants);
    return { store, schema, version, statements: withoutSecret(statements, options.secret), ran: true };
  } catch (error) {
    throw storeError(error, { where: store, schema });
  } finally {
    await driver.close().catch(() => {});
  }
}

function functionStatements(options: MigrationOptions, schema: string): string[] {
  const { functions, supabase, secret, noSecret = false, grant, grantEnqueue } = options;
  if (functions === "drop") return dropFunctionsSql(schema);
  if (functions === undefined) return [];
  const role = (name: string | undefined) => (name === undefined ? undefined : quoteName(name));
  return functionsSql({ schema, supabase, secret, noSecret, grant: role(grant), grantEnqueue: role(grantEnqueue) });
}

/** The report is printed, and ends up in logs. A script that is to be applied elsewhere keeps it. */
function withoutSecret(statements: readonly string[], secret: string | undefined): readonly string[] {
  if (secret === undefined) return statements;
  return statements.map((text) => text.replaceAll(quoteText(secret), "'***'"));
}
