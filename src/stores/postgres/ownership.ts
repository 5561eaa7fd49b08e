/**
 * Whose schema, tables and function these are. A migration that adopts what another role made would put the ledger, or the
 * function that supabase-js calls, into that role's hands. The check is SQL, because the dumped migration needs it too.
 */
import { dollarQuoted, quoteName, quoteText } from "./sql/schema.ts";

/** Raised by the check; its message says what to do. */
export const NOT_OURS = "NT002";

const TABLES = ["meta", "records", "watch", "statements"];

/**
 * Fails where something of the ledger's belongs to another role than this one, the database's owner or a superuser (these
 * two may do everything anyway), or where nevertwice did not make it. `runner` is the function that supabase-js calls, by
 * its name in "public"; `runnerMark` is a text that its source has in every release.
 */
export function ownershipCheck(schema: string, runner: string | null, runnerMark: string): string {
  const [name, tables] = [quoteName(schema), TABLES.map(quoteText).join(", ")];
  const functions = `pg_proc p WHERE p.pronamespace = to_regnamespace('public') AND p.proname = ${quoteText(runner ?? "")}`;
  const elsewhere = `Nothing was changed. Choose another schema for the ledger (--schema <name>), or`;
  return `DO ${dollarQuoted(`
DECLARE
  ledger oid := to_regnamespace(${quoteText(name)});
  seen record;
  marks bigint := 0;
BEGIN
  SELECT o.what, o.owner::regrole::text AS owner INTO seen FROM (
    SELECT 1 AS place, format('the schema %I', n.nspname) AS what, n.nspowner AS owner FROM pg_namespace n WHERE n.oid = ledger
    UNION ALL
    SELECT 2, format('the table %I.%I', ${quoteText(schema)}, c.relname), c.relowner FROM pg_class c
    WHERE c.relnamespace = ledger AND c.relname IN (${tables})
    UNION ALL
    SELECT 3, format('the function public.%I', p.proname), p.proowner FROM ${functions}) o
  JOIN pg_roles r ON r.oid = o.owner
  WHERE r.rolname NOT IN (current_user, 'pg_database_owner') AND NOT r.rolsuper
    AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
  ORDER BY o.place LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = format(
      '%s belongs to the role %s, and this migration runs as %I. ${elsewhere} run the migration as %s if that role made this ledger on purpose.',
      seen.what, seen.owner, current_user, seen.owner);
  END IF;
  SELECT c.relname INTO seen FROM pg_class c WHERE c.relnamespace = ledger AND c.relname IN (${tables}) ORDER BY c.relname LIMIT 1;
  IF FOUND THEN
    IF (SELECT count(*) = 2 FROM pg_attribute a WHERE a.attname IN ('name', 'value')
      AND a.attrelid = (SELECT c.oid FROM pg_class c WHERE c.relnamespace = ledger AND c.relname = 'meta')) THEN
      EXECUTE ${quoteText(`SELECT count(*) FROM ${name}.meta WHERE name::text IN ('ledger_id', 'schema_version')`)} INTO marks;
    END IF;
    IF marks < 2 THEN
      RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = format(
        'the table %I.%I was not made by nevertwice. ${elsewhere} rename that table.', ${quoteText(schema)}, seen.relname);
    END IF;
  END IF;
  SELECT p.proname INTO seen FROM ${functions} AND p.prosrc NOT LIKE ${quoteText(`%${runnerMark}%`)} LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '${NOT_OURS}', MESSAGE = format(
      'the function public.%I was not made by nevertwice. ${elsewhere} rename that function.', seen.proname);
  END IF;
END `)}`;
}
