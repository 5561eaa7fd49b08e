/** The ledger's tables, and how they came about. Forward only: a migration that has shipped is never edited. */
import { configError } from "../../../core/errors.ts";

/**
 * What each version adds. `readableSince`: the oldest release schema whose statements still work on it, so that an old
 * release goes on serving while a new one is rolled out (F46).
 */
export interface Migration {
  readonly readableSince: number;
  readonly sql: (schema: string) => string;
}

export const MIGRATIONS: readonly Migration[] = [
  {
    readableSince: 1,
    // One row per intent. A plain claim and confirm are one insert and one HOT update: no index holds anything that
    // they change, and a column named in an index's predicate counts as held.
    // - What people and workers look for (due work, doubts, dead letters) is in `attention`, null on the plain way.
    // - Creation never changes: one index by action, keep and creation time serves `ls` (newest first), the sweep (what
    //   was created longer ago than its keep) and the search for silent holders among the young.
    //   Many rows share a millisecond, but the server is not to fold them into one entry: a worker's lease, which is no
    //   HOT update, would have to take each such list apart again (5 of 30 µs a job).
    // - A claim older than a minute wants attention too: silent holders are found there, whatever their age.
    //   `watch` says up to which creation every claim has been marked so: one row for sweeps that see every record, and
    //   one for each tenant that sweeps behind row-level security.
    // - The index of attention ends with the tenant: what waits for one tenant is found without reading rows of others.
    // - What a confirm leaves alone comes first in the row: an update logs what differs between two row versions from
    //   the first changed byte to the last.
    // - Every index costs a lone caller some microseconds a statement, also where it holds nothing of the row: four.
    // - COLLATE "C": an operating system's upgrade that sorts text anew must not damage the index of a ledger.
    // fillfactor 45: the second version of a row finds room on its page though it is a little longer (all updates HOT;
    // 94 % at 50, none at 100). Vacuum at 2 %, not 20 %, of dead rows: each guard leaves one behind.
    sql: (schema) => `CREATE TABLE ${schema}.records (
  created_at    bigint  NOT NULL,
  keep_ms       bigint  NOT NULL,
  first_sent_at bigint,
  last_sent_at  bigint,
  attempt       integer NOT NULL,
  fence         integer NOT NULL,
  tries         integer NOT NULL,
  queued        boolean NOT NULL,
  key           bytea   NOT NULL,
  tenant        text    COLLATE "C" NOT NULL,
  action        text    COLLATE "C" NOT NULL,
  scope         text    COLLATE "C",
  doc           text    NOT NULL,
  input         text,
  draft         text,
  holder        text,
  rev           bigint  NOT NULL,
  updated_at    bigint  NOT NULL,
  lease_until   double precision,
  attention_at  bigint,
  expires_at    bigint,
  state         text    COLLATE "C" NOT NULL,
  lease_epoch   text    COLLATE "C",
  sent_mark     text,
  attention     text    COLLATE "C",
  fate          text,
  result        text,
  PRIMARY KEY (key, tenant)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX records_created ON ${schema}.records (action, keep_ms, created_at) WITH (deduplicate_items = off);
CREATE INDEX records_attention ON ${schema}.records (attention, attention_at, action, tenant) WHERE attention IS NOT NULL;
CREATE INDEX records_scope ON ${schema}.records (scope, created_at) WHERE scope IS NOT NULL;
CREATE TABLE ${schema}.watch (
  name       text   COLLATE "C" PRIMARY KEY,
  watched_to bigint NOT NULL
);`,
  },
  {
    readableSince: 1,
    // Who acted, and the provider's own id of the effect. Nullable, so that adding them rewrites no row and an older
    // release goes on inserting. No index: a confirm sets provider_id, and an index that holds it would make every
    // confirm of a result with an id a non-HOT update. Who looks ids up often may make one (docs/postgres.md).
    sql: (schema) => `ALTER TABLE ${schema}.records
  ADD COLUMN agent       text COLLATE "C",
  ADD COLUMN provider_id text COLLATE "C";`,
  },
];

export const SCHEMA_VERSION = MIGRATIONS.length;
/** Older than this cannot be served without migrating. */
const OLDEST_SERVED = 2;

export interface SchemaState {
  readonly version: number;
  readonly readableSince: number;
  readonly ledgerId: string;
}

/** A schema's name as SQL takes it. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes("\\") ? `E${quoted.replaceAll("\\", "\\\\")}` : quoted;
}

/** A body of SQL between dollar signs, with a tag that it does not contain. */
export function dollarQuoted(body: string): string {
  let tag = "nt";
  while (body.includes(`$${tag}$`)) tag += "t";
  return `$${tag}$${body}$${tag}$`;
}

/** The statements from a version (0: nothing is there) to this release's, in order. */
export function migrationSql(schema: string, from: number, migrations: readonly Migration[] = MIGRATIONS): string[] {
  const name = quoteName(schema);
  const statements = from === 0 ? foundationSql(schema) : [];
  for (const { sql } of migrations.slice(from)) statements.push(sql(name));
  return [...statements, ...versionSql(schema, from, migrations)];
}

/** What every version needs: the schema, and the table that holds its version. */
export function foundationSql(schema: string): string[] {
  const name = quoteName(schema);
  return [
    `CREATE SCHEMA IF NOT EXISTS ${name}`,
    `CREATE TABLE ${name}.meta (name text PRIMARY KEY, value text NOT NULL)`,
    `INSERT INTO ${name}.meta (name, value) VALUES ('ledger_id', gen_random_uuid()::text)`,
  ];
}

/** Records the version that a migration from `from` leads to. */
export function versionSql(schema: string, from: number, migrations: readonly Migration[]): string[] {
  const readableSince = Math.max(...migrations.slice(from).map((migration) => migration.readableSince));
  return Object.entries({ schema_version: migrations.length, readable_since: readableSince }).map(
    ([key, value]) =>
      `INSERT INTO ${quoteName(schema)}.meta (name, value) VALUES ('${key}', '${value}') ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`,
  );
}

/**
 * Row-level security: a role that is not the table's owner sees and writes only rows of the tenant its transaction
 * names. Where none is named, nothing: a forgotten setting must not show everything. Empty is none: it is what PostgreSQL
 * leaves in the session when a transaction that named a tenant has ended.
 */
export function rlsSql(schema: string): string[] {
  const [records, watch] = [`${quoteName(schema)}.records`, `${quoteName(schema)}.watch`];
  const named = "nullif(current_setting('nevertwice.tenant', true), '')";
  const [own, ownMark] = [`tenant = ${named}`, `name = 'tenant:' || ${named}`];
  return [
    `ALTER TABLE ${records} ENABLE ROW LEVEL SECURITY`,
    `DROP POLICY IF EXISTS nevertwice_tenant ON ${records}`,
    `CREATE POLICY nevertwice_tenant ON ${records} USING (${own}) WITH CHECK (${own})`,
    // The mark of who sees every row may be read by all: whatever it has passed is marked. A tenant moves its own only.
    `ALTER TABLE ${watch} ENABLE ROW LEVEL SECURITY`,
    `DROP POLICY IF EXISTS nevertwice_tenant ON ${watch}`,
    `DROP POLICY IF EXISTS nevertwice_all ON ${watch}`,
    `CREATE POLICY nevertwice_tenant ON ${watch} USING (${ownMark}) WITH CHECK (${ownMark})`,
    `CREATE POLICY nevertwice_all ON ${watch} FOR SELECT USING (name = 'all')`,
    // For roles that may read it at all: --supabase turns row-level security on for every table.
    `DROP POLICY IF EXISTS nevertwice_read ON ${quoteName(schema)}.meta`,
    `CREATE POLICY nevertwice_read ON ${quoteName(schema)}.meta FOR SELECT USING (true)`,
  ];
}

/** Names the tenant for the rest of the transaction. */
export function nameTenant(tenant: string): string {
  return `SELECT set_config('nevertwice.tenant', ${quoteText(tenant)}, true)`;
}

/**
 * What `migrate --grant` runs: besides what the role needs, it loses what it must not have. Who writes `meta` says which
 * releases may use the ledger. The owner keeps its rights: without them it could not migrate.
 */
export function accessSql(schema: string, role: string): string[] {
  const meta = `${quoteName(schema)}.meta`;
  const owner = `(SELECT c.relowner FROM pg_class c WHERE c.oid = ${quoteText(meta)}::regclass)`;
  return [
    `DO ${dollarQuoted(`BEGIN
  IF to_regrole(${quoteText(role)})::oid <> ${owner} THEN
    REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON ${meta} FROM ${role};
  END IF;
END `)}`,
    ...grantSql(schema, role),
  ];
}

/** What a role needs that uses the ledger and does not migrate it. */
export function grantSql(schema: string, role: string): string[] {
  const name = quoteName(schema);
  return [
    `GRANT USAGE ON SCHEMA ${name} TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.records TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.watch TO ${role}`,
    `GRANT SELECT ON ${name}.meta TO ${role}`,
  ];
}

/** Whether this release can work on the schema as it is; throws where it cannot and migrating would not help. */
export function isServed(state: SchemaState, where: string): boolean {
  if (state.version > SCHEMA_VERSION && state.readableSince > SCHEMA_VERSION) {
    throw configError(
      `the ledger ${where} was migrated by a newer nevertwice (its schema is ${state.version}, this release knows ${SCHEMA_VERSION}). It was left untouched. Upgrade this program: npm install nevertwice@latest`,
    );
  }
  return state.version >= OLDEST_SERVED;
}
