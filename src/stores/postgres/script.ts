/**
 * Migrations as a script for other tools: psql, a migration tool, Supabase's SQL editor. It is one DO statement, so it is
 * applied whole or not at all inside and outside a transaction, and it commits no transaction of the tool that runs it.
 * It reads the version of the schema itself. So it may be applied again, and to a ledger of any earlier version.
 */
import {
  dollarQuoted,
  foundationSql,
  MIGRATIONS,
  type Migration,
  quoteName,
  quoteText,
  versionSql,
} from "./sql/schema.ts";

export interface ScriptOptions {
  readonly schema: string;
  /** The version that the ledger has; 0: there is none, or it is not known. */
  readonly from: number;
  /** Fails where the schema belongs to somebody else: run first and last. */
  readonly check: string;
  /** Row-level security and grants, each of which may be run again. */
  readonly more: readonly string[];
}

export function migrationScript(options: ScriptOptions, migrations: readonly Migration[] = MIGRATIONS): string {
  const { schema, from, check, more } = options;
  const newest = migrations.length;
  const meta = `${quoteName(schema)}.meta`;
  const steps = migrations.slice(from).map(({ sql }, i) => {
    const version = from + i + 1;
    return `IF present < ${version} THEN\n${terminated(sql(quoteName(schema)))}\nEND IF;`;
  });
  const read = (name: string, otherwise: number) =>
    `coalesce((SELECT m.value::integer FROM ${meta} m WHERE m.name = '${name}'), ${otherwise})`;
  const body = [
    "DECLARE\n  present integer;\n  readable integer;\nBEGIN",
    `PERFORM pg_advisory_xact_lock(hashtext(${quoteText(lockName(schema))}));`,
    terminated(check),
    `IF to_regclass(${quoteText(meta)}) IS NULL THEN`,
    ...foundationSql(schema).map(terminated),
    "END IF;",
    `present := ${read("schema_version", 0)};`,
    `readable := ${read("readable_since", 1)};`,
    `IF readable > ${newest} THEN`,
    `  RAISE EXCEPTION 'the ledger in the schema % was migrated by a newer nevertwice (its schema is %, this script knows ${newest}). It was left untouched. Make the script with that release.', ${quoteText(schema)}, present;`,
    "END IF;",
    ...steps,
    `IF present < ${newest} THEN`,
    ...versionSql(schema, 0, migrations).map(terminated),
    "END IF;",
    ...more.map(terminated),
    terminated(check),
    "END ",
  ].join("\n");
  return `-- The ledger of nevertwice, schema version ${newest}. Applied again, it changes nothing.\nDO ${dollarQuoted(body)}`;
}

/** Of the advisory lock that every migration of this schema takes. */
export function lockName(schema: string): string {
  return `nevertwice ${schema}`;
}

function terminated(sql: string): string {
  return sql.trimEnd().endsWith(";") ? sql : `${sql};`;
}
