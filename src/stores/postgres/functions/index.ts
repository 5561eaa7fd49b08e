/**
 * `nevertwice migrate --functions`: the ledger's door in SQL, for triggers, RPC and pg_cron. Everything here may be run
 * again: functions are replaced, and grants that somebody made on them stay.
 */

import { NOT_OURS } from "../ownership.ts";
import { dollarQuoted, quoteName, quoteText, SCHEMA_VERSION } from "../sql/schema.ts";
import { ALIAS_FUNCTIONS } from "./aliases.ts";
import { entries } from "./entries.ts";
import { KEY_FUNCTIONS } from "./keys.ts";
import { PROVIDER_ID_FUNCTIONS } from "./provider-id.ts";
import { RETRY_FUNCTIONS } from "./retry.ts";
import { ROW_FUNCTIONS } from "./rows.ts";
import { SHARED_FUNCTIONS } from "./shared.ts";
import { intentsView } from "./view.ts";

export interface FunctionsOptions {
  readonly schema: string;
  /** With functions in "public" that supabase-js can call. */
  readonly supabase: boolean;
  /** What the programs of this ledger give as nevertwice({ secret }); undefined: nothing, or it is stored already. */
  readonly secret: string | undefined;
  /** Said by name: the programs give no secret, whatever the records look like. */
  readonly noSecret: boolean;
  /** A role that may call all of them and read the view, as SQL takes it. */
  readonly grant: string | undefined;
  /** A role that may enqueue, and nothing else, as SQL takes it. */
  readonly grantEnqueue: string | undefined;
}

/** In the source of every function, so that one of another origin is told from ours. */
const MARK = "-- of nevertwice";
// jsonb text of numbers must be the shortest that reads back as the same double, whatever the session says.
const PINNED = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1";

// In this order: a function in LANGUAGE sql is checked when it is made, so that those it calls must be there.
const INNER_FUNCTIONS = [
  ...KEY_FUNCTIONS,
  ...ROW_FUNCTIONS,
  ...ALIAS_FUNCTIONS,
  ...RETRY_FUNCTIONS,
  ...PROVIDER_ID_FUNCTIONS,
  ...SHARED_FUNCTIONS,
];

interface Made {
  readonly name: string;
  /** With the types of its parameters, as regprocedure reads it. */
  readonly create: string;
}

export function functionsSql(options: FunctionsOptions): string[] {
  const { schema, supabase, secret, noSecret, grant, grantEnqueue } = options;
  const name = quoteName(schema);
  const shared = INNER_FUNCTIONS.map((sql) => made(schema, sql, ""));
  const open = entries(name).map(({ sql }) => made(schema, sql, PINNED));
  const wrappers = supabase ? entries(name).map((entry) => wrapper(schema, entry.name)) : [];
  return [
    encodingCheck(),
    originCheck(
      schema,
      [...shared, ...open].map((one) => one.name),
      wrappers.length > 0 ? entryNames(name) : [],
    ),
    ...(secret === undefined ? [] : secretSql(schema, secret)),
    ...[...shared, ...open].map(({ name: fn, create }) => guarded(schema, fn, create)),
    ...(secret === undefined && !noSecret ? [secretCheck(schema)] : []),
    intentsView(schema),
    ...wrappers,
    ownerSql(schema),
    ...(grant === undefined ? [] : accessToFunctions(schema, grant, entryNames(name), true)),
    ...(grantEnqueue === undefined ? [] : accessToFunctions(schema, grantEnqueue, ["enqueue"], false)),
    ...(supabase ? [serviceRoleSql(schema, entryNames(name))] : []),
  ];
}

/** What `migrate --drop-functions` runs: the functions, the view and the stored secret. The records stay. */
export function dropFunctionsSql(schema: string): string[] {
  const name = quoteName(schema);
  const publicNames = entryNames(name).map((entry) => wrapperName(schema, entry));
  return [
    `DROP VIEW IF EXISTS ${name}.intents`,
    `DO ${dollarQuoted(`DECLARE one regprocedure; BEGIN
  FOR one IN SELECT p.oid::regprocedure FROM pg_proc p
    WHERE ((p.pronamespace = to_regnamespace(${quoteText(name)}))
      OR (p.pronamespace = to_regnamespace('public') AND p.proname = ANY(${textArray(publicNames)})))
      AND p.prosrc LIKE ${quoteText(`%${MARK}%`)} LOOP
    EXECUTE format('DROP FUNCTION %s', one);
  END LOOP;
END `)}`,
    `DROP TABLE IF EXISTS ${name}.sql_secret`,
  ];
}

function entryNames(name: string): string[] {
  return entries(name).map((entry) => entry.name);
}

/** From "FUNCTION @.x(…) RETURNS … LANGUAGE … AS\n<body>" to the statement. */
function made(schema: string, sql: string, pinned: string): Made {
  const cut = sql.indexOf(" AS\n");
  const head = inSchema(schema, sql.slice(0, cut));
  const body = inSchema(schema, sql.slice(cut + " AS\n".length));
  const language = /LANGUAGE (\w+)/.exec(head)?.[1];
  // A parameter may be named like a column: columns are always written with the name of their table.
  const begin = language === "plpgsql" ? `#variable_conflict use_variable\n${MARK}\n` : `${MARK}\n`;
  const name = /^FUNCTION @\.(\w+)\(/.exec(sql)?.[1] as string;
  return {
    name,
    create: `CREATE OR REPLACE ${head}${pinned === "" ? "" : ` ${pinned}`} AS ${dollarQuoted(`\n${begin}${body}\n`)}`,
  };
}

function inSchema(schema: string, sql: string): string {
  const name = quoteName(schema);
  return sql
    .replace(/'@\.(\w+)'/g, (_, object: string) => quoteText(`${name}.${object}`))
    .replaceAll("@.", () => `${name}.`)
    .replaceAll("@schema", () => quoteText(schema))
    .replaceAll("@made_for", String(SCHEMA_VERSION));
}

/**
 * Everybody may call a new function: only those that are granted it may. Grants on one that is there stay, also where its
 * parameters or its result have changed, which takes a new function in the place of the old one.
 */
function guarded(schema: string, fn: string, create: string): string {
  return `DO ${dollarQuoted(`DECLARE
  statement text := ${dollarQuoted(create)};${REPLACING}
BEGIN
${replacing(quoteText(quoteName(schema)), quoteText(fn))}
END `)}`;
}

const REPLACING = `
  old oid[];
  grants text[];
  one text;
  fresh regprocedure;`;

/** Runs `statement`, which makes the function of this name. */
function replacing(namespace: string, fn: string): string {
  const drop = `FOR one IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.oid = ANY(old) LOOP
      EXECUTE format('DROP FUNCTION %s', one);
    END LOOP;`;
  return `  old := ARRAY(SELECT p.oid FROM pg_proc p WHERE p.pronamespace = to_regnamespace(${namespace}) AND p.proname = ${fn});
  grants := ARRAY(SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a WHERE p.oid = ANY(old) AND a.grantee <> p.proowner);
  BEGIN
    EXECUTE statement;
  EXCEPTION WHEN invalid_function_definition THEN
    ${drop}
    EXECUTE statement;
  END;
  SELECT p.oid INTO fresh FROM pg_proc p WHERE p.pronamespace = to_regnamespace(${namespace}) AND p.proname = ${fn} AND p.oid <> ALL(old);
  IF fresh IS NOT NULL THEN
    ${drop}
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', fresh);
    FOR one IN SELECT DISTINCT pg_get_userbyid(a.grantee) FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
      WHERE p.oid = fresh AND a.grantee NOT IN (0, p.proowner) LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I CASCADE', fresh, one);
    END LOOP;
    FOREACH one IN ARRAY grants LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', fresh, one);
    END LOOP;
  END IF;`;
}

/** Code points are compared and written as UTF-8: in another encoding keys would not be the library's. */
function encodingCheck(): string {
  return `DO ${dollarQuoted(`BEGIN
  IF getdatabaseencoding() <> 'UTF8' THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = format('the SQL functions need a database with the encoding UTF8, and this one has %s. Nothing was changed.', getdatabaseencoding());
  END IF;
END `)}`;
}

/** A function of somebody else under one of our names would get our callers, or lose its own. */
function originCheck(schema: string, names: readonly string[], wrapped: readonly string[]): string {
  const name = quoteName(schema);
  const publicNames = wrapped.map((entry) => wrapperName(schema, entry));
  return `DO ${dollarQuoted(`DECLARE seen record; BEGIN
  SELECT p.oid::regprocedure AS what, pg_get_userbyid(p.proowner) AS owner, p.prosrc LIKE ${quoteText(`%${MARK}%`)} AS ours INTO seen
  FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
  WHERE ((p.pronamespace = to_regnamespace(${quoteText(name)}) AND p.proname = ANY(${textArray(names)}))
      OR (p.pronamespace = to_regnamespace('public') AND p.proname = ANY(${textArray(publicNames)})))
    AND (p.prosrc NOT LIKE ${quoteText(`%${MARK}%`)} OR (r.rolname <> current_user AND NOT r.rolsuper
      AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
      AND r.oid IS DISTINCT FROM (SELECT c.relowner FROM pg_class c WHERE c.oid = to_regclass(${quoteText(`${name}.records`)})))) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = format(
      'the function %s %s. Nothing was changed. Choose another schema for the ledger (--schema <name>), or rename that function.',
      seen.what, CASE WHEN seen.ours THEN format('belongs to the role %s', seen.owner) ELSE 'was not made by nevertwice' END);
  END IF;
END `)}`;
}

function secretSql(schema: string, secret: string): string[] {
  const table = `${quoteName(schema)}.sql_secret`;
  return [
    `CREATE TABLE IF NOT EXISTS ${table} (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), secret text NOT NULL)`,
    `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`,
    `REVOKE ALL ON ${table} FROM PUBLIC`,
    // Keys made with another secret name other intents: what was done under the first could be done again.
    `DO ${dollarQuoted(`BEGIN
  IF EXISTS (SELECT FROM ${table} s WHERE s.secret <> ${quoteText(secret)}) THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = 'the SQL functions of this ledger have another secret. Keys made with a new one name other intents, and what was done could be done again. Nothing was changed. Give the secret that the programs of this ledger use; to change it on purpose, run nevertwice migrate --drop-functions first.';
  END IF;
END `)}`,
    `INSERT INTO ${table} (secret) VALUES (${quoteText(secret)}) ON CONFLICT DO NOTHING`,
  ];
}

/**
 * Without the programs' secret every key made in SQL would be another intent's, and nobody would notice. With a secret, no
 * digest of a stored input is the plain one: where that is so for all records that can be looked at, the migration asks.
 */
function secretCheck(schema: string): string {
  const name = quoteName(schema);
  return `DO ${dollarQuoted(`DECLARE
  looked_at integer;
  plain integer;
BEGIN
  IF to_regclass(${quoteText(`${name}.sql_secret`)}) IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM json_each_text(p.fields::json) f
    WHERE strpos(s.doc, f.value) > 0)) INTO looked_at, plain
  FROM (SELECT r.doc, ${name}._json(r.input) AS input FROM ${name}.records r WHERE r.input LIKE '{"%' AND r.doc !~ '^\\["[0-9a-f]{8}[.]' LIMIT 50) s
  CROSS JOIN LATERAL ${name}._print(s.input, NULL, NULL) p WHERE s.input IS NOT NULL;
  IF looked_at >= 3 AND plain = 0 THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = 'the records of this ledger seem to be made with a secret: keys made in SQL without it would name other intents, and effects could happen twice. Nothing was changed. Name the variable with what the programs pass as nevertwice({ secret }) by --secret-env; if they pass none, say so: --no-secret';
  END IF;
END `)}`;
}

/** With the rights of the ledger's owner, not of a superuser who happened to migrate. */
function ownerSql(schema: string): string {
  const name = quoteName(schema);
  return `DO ${dollarQuoted(`DECLARE
  owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = to_regclass(${quoteText(`${name}.records`)}));
  one text;
BEGIN
  IF owner <> to_regrole(quote_ident(current_user))::oid AND pg_has_role(current_user, owner, 'MEMBER') THEN
    FOR one IN SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace(${quoteText(name)}) AND p.prosrc LIKE ${quoteText(`%${MARK}%`)} AND p.proowner <> owner
      UNION ALL SELECT format('%s %s', CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass) FROM pg_class c
        WHERE c.oid IN (to_regclass(${quoteText(`${name}.intents`)}), to_regclass(${quoteText(`${name}.sql_secret`)})) AND c.relowner <> owner LOOP
      EXECUTE format('ALTER %s OWNER TO %s', one, owner::regrole);
    END LOOP;
  END IF;
END `)}`;
}

function accessToFunctions(schema: string, role: string, names: readonly string[], view: boolean): string[] {
  const name = quoteName(schema);
  return [
    `GRANT USAGE ON SCHEMA ${name} TO ${role}`,
    ...names.map((fn) => grantFunction(quoteText(name), fn, role)),
    ...(view ? viewAccess(schema, role) : []),
  ];
}

/** The view runs its helpers with the rights of who reads it. */
function viewAccess(schema: string, role: string): string[] {
  const name = quoteName(schema);
  return [
    `GRANT SELECT ON ${name}.intents TO ${role}`,
    ...["_key_text", "_json", "_rest"].map((fn) => grantFunction(quoteText(name), fn, role)),
  ];
}

function grantFunction(namespace: string, fn: string, role: string): string {
  return `DO ${dollarQuoted(`BEGIN EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ${role.replaceAll("'", "''")}',
    (SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = to_regnamespace(${namespace}) AND p.proname = '${fn}')); END `)}`;
}

function wrapperName(schema: string, entry: string): string {
  return `${schema}_${entry}`;
}

/**
 * PostgREST shows the functions of "public". This one has the rights of its caller, and the same parameters: they are
 * copied from the function in the ledger's schema.
 */
function wrapper(schema: string, entry: string): string {
  const [namespace, fn] = [quoteText(quoteName(schema)), quoteName(wrapperName(schema, entry))];
  return `DO ${dollarQuoted(`DECLARE
  inner_one pg_proc;
  statement text;${REPLACING}
BEGIN
  SELECT p.* INTO inner_one FROM pg_proc p WHERE p.pronamespace = to_regnamespace(${namespace}) AND p.proname = '${entry}';
  statement := format('CREATE OR REPLACE FUNCTION public.${fn.replaceAll("%", "%%").replaceAll("'", "''")}(%s) RETURNS %s LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS %L',
    pg_get_function_arguments(inner_one.oid), pg_get_function_result(inner_one.oid),
    format(E'${MARK}\\nSELECT %s %s.${entry}(%s)', CASE WHEN inner_one.proretset THEN '* FROM' ELSE '' END, to_regnamespace(${namespace})::text,
      (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, inner_one.pronargs) i)));
${replacing("'public'", quoteText(wrapperName(schema, entry)))}
END `)}`;
}

function serviceRoleSql(schema: string, names: readonly string[]): string {
  const statements = [
    ...accessToFunctions(schema, "service_role", names, true),
    ...names.map((entry) => grantFunction("'public'", wrapperName(schema, entry), "service_role")),
  ];
  return `DO ${dollarQuoted(`BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'service_role') THEN
    ${statements.join(";\n    ")};
  END IF;
END `)}`;
}

function textArray(texts: readonly string[]): string {
  return `ARRAY[${texts.map(quoteText).join(", ")}]::text[]`;
}
