/** Who may do what with a ledger in PostgreSQL, at every moment of a migration, and whose tables a migration touches. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { CliLedger } from "../../../test/support/cli.ts";
import { until } from "../../../test/support/gate.ts";
import { supabaseRoles } from "../../../test/support/postgrest.ts";
import { sampleRecord } from "../../testing/index.ts";
import { postgresStore } from "./index.ts";
import { type MigrationOptions, performMigration } from "./migrator.ts";

const database = await freshDatabase();
const admin = new pg.Client({ connectionString: database.adminUrl });
const cli = new CliLedger();
beforeAll(async () => {
  await admin.connect();
  await supabaseRoles(database.adminUrl);
});
afterAll(async () => {
  cli.close();
  await admin.end();
});

const newSchema = () => `t_${randomBytes(6).toString("hex")}`;

function migrate(schema: string, options: Partial<MigrationOptions> = {}) {
  const usual = { url: database.url, schema, rls: false, supabase: false, grant: undefined, dryRun: false };
  return performMigration({ ...usual, ...options });
}

/** A role that may log in, and what it is granted. */
async function newRole(...grants: string[]): Promise<{ role: string; url: string; client: pg.Client }> {
  const role = `r_${randomBytes(6).toString("hex")}`;
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  for (const grant of grants) await admin.query(`GRANT ${grant} TO ${role}`);
  const url = Object.assign(new URL(database.url), { username: role, password: "secret" }).href;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return { role, url, client };
}

/** The roles besides the owner and service_role that may call the function of supabase-js; null: there is none. */
async function callers(schema: string): Promise<string[] | null> {
  const { rows } = await admin.query(
    `SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname = $1`,
    [`${schema}_run`],
  );
  if (rows.length === 0) return null;
  const { rows: allowed } = await admin.query(
    `SELECT r.rolname FROM pg_roles r WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%'
       AND r.rolname NOT IN ('service_role', 'nevertwice') AND has_function_privilege(r.oid, $1::oid, 'EXECUTE')`,
    [rows[0].oid],
  );
  return allowed.map(({ rolname }) => rolname);
}

describe("a migration happens whole or not at all, with everything that it revokes", () => {
  it("a connection that drops at any statement leaves nothing, and nobody could call the function meanwhile", async () => {
    const schema = newSchema();
    const { role } = await newRole();
    // At the n-th change of the catalog the migration waits for this lock, so that the test can look around, and end it.
    await admin.query(`SELECT pg_advisory_lock(727272)`);
    await admin.query(`CREATE FUNCTION public.pause_here() RETURNS event_trigger LANGUAGE plpgsql AS $$
      DECLARE n int := coalesce(nullif(current_setting('test.changes', true), ''), '0')::int + 1;
      BEGIN
        PERFORM set_config('test.changes', n::text, false);
        IF n::text = current_setting('test.pause_at', true) THEN PERFORM pg_advisory_lock(727272); END IF;
      END $$;
      REVOKE ALL ON FUNCTION public.pause_here() FROM anon, authenticated, service_role;
      CREATE EVENT TRIGGER pause_here ON ddl_command_end EXECUTE FUNCTION public.pause_here()`);
    onTestFinished(async () => {
      await admin.query(
        `DROP EVENT TRIGGER pause_here; DROP FUNCTION public.pause_here; SELECT pg_advisory_unlock_all()`,
      );
    });
    const waiting = async (): Promise<number[]> => {
      const { rows } = await admin.query(
        `SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 727272 AND NOT l.granted`,
      );
      return rows.map(({ pid }) => pid);
    };
    let statement = 1;
    for (; statement < 100; statement += 1) {
      const url = `${database.url}?options=${encodeURIComponent(`-c test.pause_at=${statement}`)}`;
      let over = false;
      const migration = migrate(schema, { url, supabase: true, grant: role })
        .then(
          () => "done",
          () => "dropped",
        )
        .finally(() => {
          over = true;
        });
      await until(async () => over || (await waiting()).length > 0, "the next statement, or the end");
      if (over) {
        expect(await migration).toBe("done");
        break;
      }
      expect([statement, await callers(schema)]).toEqual([statement, null]);
      for (const pid of await waiting()) await admin.query("SELECT pg_terminate_backend($1)", [pid]);
      expect(await migration).toBe("dropped");
      expect([statement, await callers(schema)]).toEqual([statement, null]);
      const { rows } = await admin.query("SELECT to_regnamespace($1) IS NULL AS gone", [schema]);
      expect([statement, rows[0].gone]).toEqual([statement, true]);
    }
    expect(statement).toBeGreaterThan(10);
    expect(await callers(schema)).toEqual([]);
  });

  it("run ten times at once and again: the same ledger, callable by service_role alone", async () => {
    const schema = newSchema();
    const { role } = await newRole();
    const options = { supabase: true, rls: true, grant: role };
    await Promise.all(Array.from({ length: 10 }, () => migrate(schema, options)));
    const meta = async () => (await admin.query(`SELECT name, value FROM ${schema}.meta ORDER BY name`)).rows;
    const before = await meta();
    await migrate(schema, options);
    expect(await meta()).toEqual(before);
    expect(await callers(schema)).toEqual([]);
  });

  it("takes the function back from whoever was granted it by default privileges or by hand", async () => {
    const schema = newSchema();
    const { role } = await newRole();
    await admin.query(
      `ALTER DEFAULT PRIVILEGES FOR ROLE nevertwice IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO ${role}`,
    );
    onTestFinished(async () => {
      await admin.query(
        `ALTER DEFAULT PRIVILEGES FOR ROLE nevertwice IN SCHEMA public REVOKE EXECUTE ON FUNCTIONS FROM ${role}`,
      );
    });
    await migrate(schema, { supabase: true });
    expect(await callers(schema)).toEqual([]);
    await admin.query(`GRANT EXECUTE ON FUNCTION public.${schema}_run TO PUBLIC, anon`);
    expect(await callers(schema)).toContain("anon");
    await migrate(schema, { supabase: true });
    expect(await callers(schema)).toEqual([]);
  });

  it("every function it makes has a search_path of its own", async () => {
    const schema = newSchema();
    await migrate(schema, { supabase: true });
    const { rows } = await admin.query(
      `SELECT p.proname, p.prosecdef, p.proconfig FROM pg_proc p
       WHERE p.pronamespace IN ('public'::regnamespace, $1::regnamespace) AND p.proowner = 'nevertwice'::regrole
         AND p.proname LIKE $1 || '%'`,
      [schema],
    );
    expect(rows).toHaveLength(1);
    for (const { proconfig } of rows) expect(proconfig).toContain("search_path=pg_catalog, pg_temp");
  });
});

describe("a statement is run only if it is the one that its digest names", () => {
  it("a changed text is refused, and the next migration restores it", async () => {
    const schema = newSchema();
    await migrate(schema, { supabase: true });
    const { rows } = await admin.query(`SELECT name FROM ${schema}.statements LIMIT 1`);
    await admin.query(`UPDATE ${schema}.statements SET text = 'CREATE TABLE public.stolen ()' WHERE name = $1`, [
      rows[0].name,
    ]);
    const call = () => admin.query(`SELECT * FROM public.${schema}_run($1, '{}')`, [rows[0].name]);
    await expect(call()).rejects.toMatchObject({ code: "NT001" });
    await admin.query(`INSERT INTO ${schema}.statements VALUES ('mine', 'SELECT 1')`);
    await expect(admin.query(`SELECT * FROM public.${schema}_run('mine', '{}')`)).rejects.toMatchObject({
      code: "NT001",
    });
    await migrate(schema, { supabase: true });
    const healed = await admin.query(`SELECT text FROM ${schema}.statements WHERE name = $1`, [rows[0].name]);
    expect(healed.rows[0].text).not.toContain("stolen");
  });
});

describe("a migration leaves alone what it did not make", () => {
  const refusal = (schema: string, options: Partial<MigrationOptions>, message: RegExp) =>
    expect(migrate(schema, options)).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringMatching(message),
    });
  const migrators = { "its database's owner": database.url, "a superuser": database.adminUrl };

  it.each(Object.entries(migrators))("a schema of another role is refused, also by %s", async (_, url) => {
    const schema = newSchema();
    const { role, client } = await newRole(`CREATE ON DATABASE ${database.name}`);
    await client.query(`CREATE SCHEMA ${schema}`);
    for (const supabase of [false, true])
      await refusal(
        schema,
        { url, supabase },
        new RegExp(`schema ${schema} belongs to the role ${role}.*--schema`, "s"),
      );
    const { rows } = await admin.query(
      "SELECT count(*)::int AS n FROM pg_class WHERE relnamespace = $1::regnamespace",
      [schema],
    );
    expect(rows[0].n).toBe(0);
    // The same by a program that migrates at its first call.
    const store = postgresStore({ url, schema, listen: false });
    onTestFinished(() => store.close());
    await expect(store.read(["nt1_x"])).rejects.toMatchObject({
      code: "CONFIG",
      message: expect.stringContaining(schema),
    });
  });

  it.each(["meta", "records", "watch", "statements"])(
    "a table %s of another role in our own schema is refused",
    async (table) => {
      const schema = newSchema();
      const { role, client } = await newRole();
      await admin.query(
        `CREATE SCHEMA ${schema} AUTHORIZATION nevertwice; GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role}`,
      );
      await client.query(`CREATE TABLE ${schema}.${table} (name text PRIMARY KEY, value text, text text)`);
      await refusal(schema, { supabase: true }, new RegExp(`table ${schema}\\.${table} belongs to the role ${role}`));
    },
  );

  it.each([
    ["meta", "(id int)"],
    ["meta", "(name text, value text)"],
    ["records", "(id int)"],
    ["statements", "(name text, text text)"],
  ])("a table %s %s of ours that is no ledger's is refused", async (table, columns) => {
    const schema = newSchema();
    const owner = new pg.Client({ connectionString: database.url });
    await owner.connect();
    onTestFinished(() => owner.end());
    await owner.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.${table} ${columns}`);
    await refusal(
      schema,
      { supabase: true },
      new RegExp(`table ${schema}\\.${table} was not made by nevertwice.*--schema`, "s"),
    );
    await refusal(schema, {}, /was not made by nevertwice/);
    await refusal(schema, { dryRun: true }, /was not made by nevertwice/);
    expect((await owner.query(`SELECT * FROM ${schema}.${table}`)).rows).toEqual([]);
  });

  it("a function of that name is refused, whoever made it", async () => {
    const schema = newSchema();
    const { role, client } = await newRole("CREATE ON SCHEMA public");
    const body = "RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$";
    await client.query(`CREATE FUNCTION public.${schema}_run(statement text, parameters jsonb) ${body}`);
    for (const url of Object.values(migrators))
      await refusal(schema, { url, supabase: true }, new RegExp(`function.*belongs to the role ${role}`, "s"));
    await admin.query(`ALTER FUNCTION public.${schema}_run(text, jsonb) OWNER TO nevertwice`);
    await refusal(schema, { supabase: true }, /function.*was not made by nevertwice/s);
    await migrate(schema);
  });

  it("the dumped SQL refuses too, and changes nothing", async () => {
    const schema = newSchema();
    const { role, client } = await newRole(`CREATE ON DATABASE ${database.name}`);
    await client.query(`CREATE SCHEMA ${schema}`);
    const { out } = await cli.run(["migrate", "--dump-sql", "--supabase", "--schema", schema]);
    const owner = new pg.Client({ connectionString: database.url });
    await owner.connect();
    onTestFinished(() => owner.end());
    await expect(owner.query(out)).rejects.toMatchObject({ code: "NT002", message: expect.stringContaining(role) });
    await owner.query("ROLLBACK");
    expect(await callers(schema)).toBeNull();
  });

  it("an empty schema that was made for this role is used", async () => {
    const schema = newSchema();
    await admin.query(`CREATE SCHEMA ${schema} AUTHORIZATION nevertwice`);
    await migrate(schema, { supabase: true });
    // Made by the database's administrator, who may do everything anyway.
    const other = newSchema();
    await admin.query(`CREATE SCHEMA ${other}; GRANT ALL ON SCHEMA ${other} TO nevertwice`);
    await migrate(other);
  });
});

describe("the program's role", () => {
  it("uses the ledger and cannot write its meta or its statements, by itself or through the function", async () => {
    const schema = newSchema();
    const { role, url, client } = await newRole();
    await migrate(schema, { supabase: true, rls: true, grant: role });
    const store = postgresStore({ url, schema, tenant: "a", rls: true, listen: false });
    onTestFinished(() => store.close());
    await store.write([{ record: sampleRecord({ tenant: "a" }), expected: null }]);
    expect(await store.sweep({ limit: 10 })).toBe(0);
    expect((await store.list({ limit: 10, lapsed: true })).items).toEqual([]);
    expect((await store.stats()).total).toBe(1);
    for (const write of [
      `UPDATE ${schema}.meta SET value = '9' WHERE name = 'schema_version'`,
      `INSERT INTO ${schema}.meta VALUES ('x', 'y')`,
      `DELETE FROM ${schema}.meta`,
      `TRUNCATE ${schema}.meta`,
      `UPDATE ${schema}.statements SET text = 'SELECT 1'`,
      `SELECT * FROM ${schema}.statements`,
      `CREATE TABLE ${schema}.mine ()`,
      `TRUNCATE ${schema}.records`,
    ])
      await expect(client.query(write), write).rejects.toMatchObject({ code: "42501" });
    await expect(client.query(`SELECT * FROM public.${schema}_run('x', '{}')`)).rejects.toMatchObject({
      code: "42501",
    });
  });

  it("loses the right to write meta that an earlier release granted", async () => {
    const schema = newSchema();
    const { role, client } = await newRole();
    await migrate(schema, { grant: role });
    await admin.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${schema}.meta TO ${role}`);
    await migrate(schema, { grant: role });
    await expect(client.query(`UPDATE ${schema}.meta SET value = 'x'`)).rejects.toMatchObject({ code: "42501" });
    expect((await client.query(`SELECT * FROM ${schema}.meta`)).rows).not.toEqual([]);
  });

  it("granted to the owner itself, takes nothing from it: it must still be able to migrate", async () => {
    const schema = newSchema();
    await migrate(schema, { grant: "nevertwice" });
    await migrate(schema, { grant: "nevertwice", supabase: true, rls: true });
    const { rows } = await admin.query("SELECT has_table_privilege('nevertwice', $1, 'UPDATE') AS may", [
      `${schema}.meta`,
    ]);
    expect(rows[0].may).toBe(true);
  });

  it("row-level security after --supabase: the policies are made, and the granted role works behind them", async () => {
    const schema = newSchema();
    const { role, url } = await newRole();
    await migrate(schema, { supabase: true });
    await migrate(schema, { rls: true, grant: role });
    const store = postgresStore({ url, schema, tenant: "a", rls: true, migrate: "manual", listen: false });
    onTestFinished(() => store.close());
    await store.write([{ record: sampleRecord({ tenant: "a" }), expected: null }]);
    expect((await store.stats()).total).toBe(1);
  });
});
