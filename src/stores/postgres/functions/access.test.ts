/** D6: making the functions, again and for other releases, who may call them, and removing them. */
import { randomBytes } from "node:crypto";
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { connect, type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";
import { quoteName, SCHEMA_VERSION } from "../sql/schema.ts";

const database = await freshDatabase();
const cli = new CliLedger();
const admin = new pg.Client({ connectionString: database.adminUrl });
await admin.connect();
const roles: string[] = [];
afterAll(async () => {
  await cli.close();
  for (const role of roles) await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  await admin.end();
});

const place = { cli, url: database.url };
const migrate = (schema: string, ...flags: string[]) =>
  cli.run(["migrate", "--store", database.url, "--schema", schema, ...flags]);

/** A role that may log in, and a call as that role. */
async function role(): Promise<{ name: string; as: (sql: string, setup?: string) => Promise<pg.QueryResult> }> {
  const name = `r_${randomBytes(5).toString("hex")}`;
  await admin.query(`CREATE ROLE ${name} LOGIN PASSWORD 'x'`);
  roles.push(name);
  const client = await connect(Object.assign(new URL(database.url), { username: name, password: "x" }).href);
  return {
    name,
    as: async (sql, setup = "SELECT 1") => {
      await client.query(`BEGIN; ${setup}`);
      try {
        const result = await client.query(sql);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      }
    },
  };
}

async function functionsOf({ schema, rows }: SqlLedger): Promise<string[]> {
  const found = await rows(
    `SELECT p.oid::regprocedure::text || coalesce(p.proacl::text, '') || p.prosrc AS f FROM pg_proc p WHERE p.pronamespace = $1::regnamespace ORDER BY 1`,
    [schema],
  );
  return found.map(({ f }) => f);
}

describe("D6: migrate --functions", () => {
  it("D6: run again it changes nothing, and grants that somebody made stay", async () => {
    const ledger = await sqlLedger(place);
    const { name, as } = await role();
    await ledger.rows(`GRANT USAGE ON SCHEMA ${ledger.schema} TO ${name}; GRANT EXECUTE ON FUNCTION @.key TO ${name}`);
    await ledger.rows("CREATE VIEW @.mine AS SELECT action, count(*) FROM @.intents GROUP BY 1");
    const before = await functionsOf(ledger);
    expect((await migrate(ledger.schema, "--functions")).code).toBe(0);
    expect(await functionsOf(ledger)).toEqual(before);
    expect((await as(`SELECT ${ledger.schema}.key('a', '[1]')`)).rows.length).toBe(1);
    await expect(as(`SELECT ${ledger.schema}.claim('a', '[1]')`)).rejects.toMatchObject({ code: "42501" });
    await expect(as(`SELECT ${ledger.schema}._secret()`)).rejects.toMatchObject({ code: "42501" });
  });

  it("D6: what --dump-sql prints does the same, in a schema with any name, twice", async () => {
    const schema = `it's "my" ledger ${randomBytes(3).toString("hex")}`;
    const { code, out } = await cli.run(["migrate", "--dump-sql", "--functions", "--schema", schema]);
    expect(code).toBe(0);
    const client = await connect(database.url);
    await client.query(out);
    await client.query(out);
    const name = quoteName(schema);
    const { rows } = await client.query(`SELECT ${name}.claim('a', '[1]') AS one, ${name}.claim('a', '[1]') AS two`);
    expect(rows).toEqual([{ one: true, two: false }]);
    await client.query(
      `SELECT ${name}.enqueue('b', '[1]', '{"x":1}'); SELECT ${name}.sweep(); SELECT * FROM ${name}.intents`,
    );
    expect((await client.query(`SELECT * FROM ${name}.take('{b}')`)).rows).toMatchObject([{ payload: { x: 1 } }]);
    const ledger = await sqlLedger(place, [], {}, schema);
    expect(await ledger.call("SELECT count(*)::int FROM @.intents")).toBe(2);
  });

  it("D6: --drop-functions removes them and leaves the records", async () => {
    const ledger = await sqlLedger(place, ["--secret-env", "S"], { S: "a secret of the programs" });
    await ledger.call(`SELECT @.claim('a', '[1]')`);
    expect((await migrate(ledger.schema, "--drop-functions")).code).toBe(0);
    expect(await functionsOf(ledger)).toEqual([]);
    const { rows } = await admin.query(
      "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v') ORDER BY 1",
      [ledger.schema],
    );
    expect(rows.map(({ relname }) => relname)).toEqual(["meta", "records", "watch"]);
    expect(await ledger.call("SELECT count(*)::int FROM @.records")).toBe(1);
    expect((await migrate(ledger.schema, "--drop-functions")).code).toBe(0);
  });

  it("D6: flags that make no sense together are refused", async () => {
    for (const [flags, message] of [
      [["--functions", "--drop-functions"], /contradict/],
      [["--secret-env", "S"], /only with --functions/],
      [["--no-secret"], /only with --functions/],
      [["--functions", "--no-secret", "--secret-env", "S"], /contradict/],
      [["--grant-enqueue", "app"], /only with --functions/],
    ] as const) {
      const { code, err } = await migrate("x", ...flags);
      expect({ code, err }).toEqual({ code: 2, err: expect.stringMatching(message) });
    }
  });

  it("D6: a function of somebody else under one of the names is not replaced", async () => {
    const ledger = await sqlLedger(place);
    await migrate(ledger.schema, "--drop-functions");
    await ledger.rows("CREATE FUNCTION @.take(text[]) RETURNS integer LANGUAGE sql AS 'SELECT 1'");
    const { code, err } = await migrate(ledger.schema, "--functions");
    expect({ code, err }).toEqual({
      code: 3,
      err: expect.stringMatching(/take.* was not made by nevertwice.*Nothing was changed/s),
    });
    expect((await functionsOf(ledger)).length).toBe(1);
  });

  it("D6: functions and tables that do not fit each other are refused, with the command that helps", async () => {
    const ledger = await sqlLedger(place);
    const set = (name: string, value: number) =>
      ledger.rows("UPDATE @.meta SET value = $2 WHERE name = $1", [name, String(value)]);
    const refused = () =>
      expect(ledger.call(`SELECT @.enqueue('a', '[1]')`)).rejects.toMatchObject({
        code: "NT013",
        message: expect.stringMatching(/nevertwice migrate --functions/),
      });
    await set("schema_version", SCHEMA_VERSION - 1);
    await refused();
    // A newer schema that this release can still work on.
    await set("schema_version", SCHEMA_VERSION + 5);
    expect(await ledger.call(`SELECT @.enqueue('a', '[1]')`)).toMatchObject({ created: true });
    await set("readable_since", SCHEMA_VERSION + 1);
    await refused();
    await ledger.rows("DELETE FROM @.meta");
    await refused();
  });
});

describe("D6: the secret", () => {
  const secret = "a secret of the programs";

  it("D6: keys and fingerprints are the programs', without any setting of the session", async () => {
    const ledger = await sqlLedger(place, ["--secret-env", "S"], { S: secret });
    const nt = nevertwice({ store: ledger.store(), sweep: false, secret });
    onTestFinished(() => nt.close());
    const ran: unknown[] = [];
    const act = nt.action("a", { key: ["id"], run: async (input: { id: number; n: number }) => ran.push(input) });
    await ledger.call(`SELECT @.enqueue('a', '[1]', '{"id":1,"n":2}')`);
    expect(await act.enqueue({ id: 1, n: 2 })).toMatchObject({ created: false });
    expect(await act.attempt({ id: 1, n: 3 })).toMatchObject({ status: "conflict", differs: ["n"] });
    await nt.worker().drain();
    expect(ran).toEqual([{ id: 1, n: 2 }]);
  });

  it("D6: is kept by a migration that does not name it, and never exchanged for another one", async () => {
    const ledger = await sqlLedger(place, ["--secret-env", "S"], { S: secret });
    const key = await ledger.call(`SELECT @.key('a', '[1]')`);
    expect((await migrate(ledger.schema, "--functions")).code).toBe(0);
    expect(await ledger.call(`SELECT @.key('a', '[1]')`)).toBe(key);
    const other = await cli.run(
      ["migrate", "--functions", "--store", database.url, "--schema", ledger.schema, "--secret-env", "S"],
      { env: { S: "another secret, as long" } },
    );
    expect(other).toMatchObject({ code: 3, err: expect.stringMatching(/have another secret/) });
    expect(other.err).not.toContain("another secret, as long");
    await ledger.rows("DELETE FROM @.sql_secret");
    await expect(ledger.call(`SELECT @.claim('a', '[1]')`)).rejects.toMatchObject({
      code: "NT013",
      message: expect.stringMatching(/--secret-env/),
    });
  });

  it("D6: a ledger whose records were made with one is not given functions without it, unless that is said by name", async () => {
    const schema = `t_${randomBytes(6).toString("hex")}`;
    for (const [part, given] of [
      [1, { secret }],
      [2, { secret }],
      [3, { secret }],
    ] as const) {
      const store = postgresStore({ url: database.url, schema });
      const nt = nevertwice({ store, sweep: false, ...given });
      await nt.action("a", { key: ["id"], run: async (_: { id: number; n: string }) => 1 })({
        id: part,
        n: `x ${part}`,
      });
      await nt.close();
      await store.close();
    }
    const argv = ["migrate", "--functions", "--store", database.url, "--schema", schema];
    expect(await cli.run(argv)).toMatchObject({
      code: 3,
      err: expect.stringMatching(/seem to be made with a secret.*--secret-env.*--no-secret$/m),
    });
    expect(await cli.run([...argv, "--secret-env", "S"], { env: { S: secret } })).toMatchObject({ code: 0 });
    expect(await cli.run(argv)).toMatchObject({ code: 0 });
    await migrate(schema, "--drop-functions");
    expect(await cli.run([...argv, "--no-secret"])).toMatchObject({ code: 0 });
    // One record of a program without a secret is enough to know.
    await migrate(schema, "--drop-functions");
    const plain = nevertwice({ store: postgresStore({ url: database.url, schema }), sweep: false });
    await plain.action("a", { key: ["id"], run: async (_: { id: number; n: string }) => 1 })({ id: 4, n: "y" });
    await plain.close();
    expect(await cli.run(argv)).toMatchObject({ code: 0 });
  });

  it("D6: is for the owner's eyes only, also for roles that use the ledger", async () => {
    const { name, as } = await role();
    const ledger = await sqlLedger(place, ["--secret-env", "S", "--grant", name], { S: secret });
    expect((await as(`SELECT ${ledger.schema}.claim('a', '[1]') AS it`)).rows).toEqual([{ it: true }]);
    const argv = ["migrate", "--functions", "--store", database.url, "--schema", ledger.schema, "--secret-env", "S"];
    const reported = await cli.run([...argv, "--json"], { env: { S: secret } });
    expect(reported.code).toBe(0);
    expect(reported.out).not.toContain(secret);
    await expect(as(`SELECT * FROM ${ledger.schema}.sql_secret`)).rejects.toMatchObject({ code: "42501" });
    const short = await cli.run(["migrate", "--functions", "--dump-sql", "--secret-env", "S"], { env: { S: "short" } });
    expect(short).toMatchObject({ code: 2, err: expect.stringMatching(/16 bytes/) });
  });
});

describe("D6: who may call what", () => {
  it("D6: --grant-enqueue: a role that can enqueue, and nothing else", async () => {
    const { name, as } = await role();
    const { schema } = await sqlLedger(place, ["--grant-enqueue", name]);
    expect((await as(`SELECT ${schema}.enqueue('a', '[1]', '{"x":1}') AS it`)).rows[0].it).toMatchObject({
      created: true,
    });
    for (const sql of [
      `SELECT ${schema}.claim('a', '[2]')`,
      `SELECT * FROM ${schema}.take('{a}')`,
      `SELECT ${schema}.status('a', '[1]')`,
      `SELECT ${schema}.sweep()`,
      `SELECT * FROM ${schema}.intents`,
      `SELECT * FROM ${schema}.records`,
      `INSERT INTO ${schema}.watch VALUES ('x', 1)`,
      `SELECT ${schema}._store(NULL, 1)`,
    ]) {
      await expect(as(sql), sql).rejects.toMatchObject({ code: "42501" });
    }
  });

  it("D6: --grant: the functions, the view and the tables", async () => {
    const { name, as } = await role();
    const { schema } = await sqlLedger(place, ["--grant", name]);
    const { it } = (await as(`SELECT ${schema}.try_claim('a', '[1]', '{"x":1}') AS it`)).rows[0];
    await as(`SELECT ${schema}.settle('${it.key}', 'done', '{"id":1}')`);
    expect((await as(`SELECT action, state, result, key FROM ${schema}.intents`)).rows).toEqual([
      { action: "a", state: "confirmed", result: { id: 1 }, key: it.key },
    ]);
    await expect(as(`UPDATE ${schema}.meta SET value = '9'`)).rejects.toMatchObject({ code: "42501" });
  });

  it("D6: nobody else, and a search_path of the caller's changes nothing", async () => {
    const { name, as } = await role();
    const ledger = await sqlLedger(place);
    await expect(as(`SELECT ${ledger.schema}.enqueue('a', '[1]')`)).rejects.toMatchObject({ code: "42501" });
    const evil = `e_${randomBytes(4).toString("hex")}`;
    await admin.query(
      `CREATE SCHEMA ${evil} AUTHORIZATION ${name}; CREATE FUNCTION ${evil}.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT $1'`,
    );
    onTestFinished(() => admin.query(`DROP SCHEMA ${evil} CASCADE`).then(() => {}));
    const key = await ledger.call(`SELECT @.key('a', '[1]')`);
    await ledger.rows(`GRANT USAGE ON SCHEMA ${ledger.schema} TO ${name}; GRANT EXECUTE ON FUNCTION @.key TO ${name}`);
    const { rows } = await as(
      `SELECT ${ledger.schema}.key('a', '[1]') AS key`,
      `SET LOCAL search_path = ${evil}, pg_catalog`,
    );
    expect(rows).toEqual([{ key }]);
    const unpinned = await ledger.rows(
      "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = $1::regnamespace AND p.prosecdef AND NOT coalesce(p.proconfig, '{}') @> '{\"search_path=pg_catalog, pg_temp\"}'",
      [ledger.schema],
    );
    expect(unpinned).toEqual([]);
  });

  it("D6: made by a superuser, they have the rights of the ledger's owner", async () => {
    const schema = `t_${randomBytes(6).toString("hex")}`;
    await migrate(schema);
    const { code, err } = await cli.run(["migrate", "--functions", "--store", database.adminUrl, "--schema", schema]);
    expect({ code, err }).toMatchObject({ code: 0 });
    const { rows } = await admin.query(
      "SELECT DISTINCT p.proowner = c.relowner AS owners FROM pg_proc p, pg_class c WHERE p.pronamespace = $1::regnamespace AND c.oid = to_regclass($1 || '.records')",
      [schema],
    );
    expect(rows).toEqual([{ owners: true }]);
  });
});

describe("D6: tenants behind row-level security", () => {
  it("D6: a call sees and writes the tenant that its transaction names, and no other", async () => {
    const { name, as } = await role();
    const { schema, call } = await sqlLedger(place, ["--rls", "--grant", name]);
    const acme = "SELECT set_config('nevertwice.tenant', 'acme', true)";
    const globex = "SELECT set_config('nevertwice.tenant', 'globex', true)";
    await expect(as(`SELECT ${schema}.claim('a', '[1]')`)).rejects.toThrow(/names no tenant/);
    expect((await as(`SELECT ${schema}.try_claim('a', '[1]') AS it`, acme)).rows[0].it.key).toBe(
      await call(`SELECT @.key('a', '[1]', tenant => 'acme')`),
    );
    expect((await as(`SELECT ${schema}.claim('a', '[1]') AS it`, globex)).rows).toEqual([{ it: true }]);
    expect((await as(`SELECT ${schema}.claim('a', '[1]') AS it`, acme)).rows).toEqual([{ it: false }]);
    await expect(as(`SELECT ${schema}.claim('a', '[2]', tenant => 'globex')`, acme)).rejects.toThrow(
      /names another tenant/,
    );
    const key = await call(`SELECT @.key('a', '[1]', tenant => 'globex')`);
    await expect(as(`SELECT ${schema}.settle('${key}', 'done')`, acme)).rejects.toThrow(/no record of the key/);
    await as(`SELECT ${schema}.enqueue('q', '[1]')`, globex);
    expect((await as(`SELECT * FROM ${schema}.take('{q}')`, acme)).rows).toEqual([]);
    expect((await as(`SELECT tenant FROM ${schema}.take('{q}')`, globex)).rows).toEqual([{ tenant: "globex" }]);
    expect((await as(`SELECT DISTINCT tenant FROM ${schema}.intents`, acme)).rows).toEqual([{ tenant: "acme" }]);
    expect((await as(`SELECT * FROM ${schema}.intents`)).rows).toEqual([]);
    await expect(as(`SELECT ${schema}.sweep()`, acme)).rejects.toThrow(/tenant/);
    // The owner sees everybody's, as without the functions.
    expect(await call("SELECT count(DISTINCT tenant)::int FROM @.intents")).toBe(2);
    expect(await call("SELECT @.sweep()")).toMatchObject({ removed: 0 });
  });

  it("D6: the empty setting that an ended transaction leaves behind is no tenant", async () => {
    const { name, as } = await role();
    const { schema, call } = await sqlLedger(place, ["--rls", "--grant", name]);
    await call("SELECT @.enqueue('q', '[1]')");
    await call("SELECT @.claim('a', '[1]')");
    const left = "SELECT set_config('nevertwice.tenant', '', true)";
    for (const one of [
      "claim('a', '[2]')",
      "try_claim('a', '[2]')",
      "enqueue('q', '[2]')",
      "status('a', '[1]')",
      "take('{q}')",
    ])
      await expect(as(`SELECT ${schema}.${one}`, left), one).rejects.toThrow(/names no tenant/);
    expect((await as(`SELECT * FROM ${schema}.intents`, left)).rows).toEqual([]);
    expect((await as(`SELECT * FROM ${schema}.records`, left)).rows).toEqual([]);
  });
});
