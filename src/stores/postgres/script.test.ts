/** The SQL that `migrate` prints, applied by other tools: again, to older ledgers, in a transaction of theirs. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { program } from "../../../scripts/services/programs.mjs";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { CliLedger } from "../../../test/support/cli.ts";
import { sampleRecord } from "../../testing/index.ts";
import { migrationScript } from "./script.ts";
import { MIGRATIONS, migrationSql, quoteName, SCHEMA_VERSION } from "./sql/schema.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());

const newSchema = () => `t_${randomBytes(6).toString("hex")}`;

async function connection(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

async function dump(schema: string, ...flags: string[]): Promise<string> {
  const { code, out } = await cli.run(["migrate", "--dump-sql", "--schema", schema, ...flags]);
  expect(code).toBe(0);
  return out;
}

function psql(sql: string, ...flags: string[]): { status: number | null; err: string } {
  const file = join(cli.folder, `${newSchema()}.sql`);
  writeFileSync(file, sql);
  const ran = spawnSync(program("psql"), [database.url, "-X", "-q", "-v", "ON_ERROR_STOP=1", ...flags, "-f", file], {
    encoding: "utf8",
  });
  return { status: ran.status, err: ran.stderr };
}

async function metaOf(client: pg.Client, schema: string): Promise<Record<string, string>> {
  const { rows } = await client.query(`SELECT name, value FROM ${quoteName(schema)}.meta`);
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

async function useLedger(schema: string): Promise<number> {
  const store = postgresStore({ url: database.url, schema, migrate: "manual", listen: false });
  onTestFinished(() => store.close());
  await store.write([{ record: sampleRecord({ key: `nt1_${randomBytes(4).toString("hex")}` }), expected: null }]);
  return (await store.stats()).total;
}

const VARIANTS: [string, string[]][] = [
  ["plain", []],
  ["--rls", ["--rls"]],
  ["--supabase", ["--supabase"]],
  ["--rls --supabase --grant", ["--rls", "--supabase", "--grant", "pg_monitor"]],
  ["D6 --functions", ["--functions"]],
  [
    "D6 --functions and all others",
    ["--functions", "--rls", "--supabase", "--grant", "pg_monitor", "--grant-enqueue", "pg_monitor"],
  ],
];

describe("migrate --dump-sql", () => {
  it("D6 of the built package: the same functions, without white space and comments", async () => {
    const flags = ["--schema", "ledger", "--functions", "--supabase", "--rls"];
    const main = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));
    const { stdout } = spawnSync(process.execPath, [main, "migrate", "--dump-sql", ...flags], { encoding: "utf8" });
    const plain = (sql: string) => sql.replace(/^ *-- (?!of nevertwice).*\n/gm, "").replace(/^ +/gm, "");
    expect(stdout.length).toBeGreaterThan(100_000);
    expect(plain(stdout)).toBe(plain(await dump("ledger", ...flags.slice(2))));
  });

  it.each(VARIANTS)("can be applied twice, and keeps the ledger and its records: %s", async (_, flags) => {
    const schema = newSchema();
    const sql = await dump(schema, ...flags);
    const client = await connection();
    await client.query(sql);
    const before = await metaOf(client, schema);
    expect(await useLedger(schema)).toBe(1);
    await client.query(sql);
    await client.query(sql);
    expect(await metaOf(client, schema)).toEqual(before);
    expect(await useLedger(schema)).toBe(2);
  });

  it.each([
    ["by itself", []],
    ["in one transaction", ["--single-transaction"]],
  ])("psql with ON_ERROR_STOP applies it twice without an error or a warning: %s", async (_, flags) => {
    const sql = await dump('odd "name" \\ it\'s', "--rls", "--supabase");
    for (const _time of [1, 2]) {
      const { status, err } = psql(sql, ...flags);
      expect(err.replaceAll(/^.*NOTICE:.*(\n(DETAIL|CONTEXT):.*)*$/gm, "").trim()).not.toMatch(/ERROR|WARNING/);
      expect(status).toBe(0);
    }
  });

  it("ends no transaction of the tool that runs it: a rollback leaves nothing", async () => {
    const schema = newSchema();
    const client = await connection();
    await client.query("BEGIN");
    await client.query(await dump(schema));
    await client.query("ROLLBACK");
    const { rows } = await client.query("SELECT to_regnamespace($1) AS found", [schema]);
    expect(rows).toEqual([{ found: null }]);
  });

  it.each(Array.from({ length: SCHEMA_VERSION + 1 }, (_, version) => version))(
    "brings a ledger of version %i up to date, twice",
    async (version) => {
      const schema = newSchema();
      const client = await connection();
      if (version > 0) for (const sql of migrationSql(schema, 0, MIGRATIONS.slice(0, version))) await client.query(sql);
      const sql = await dump(schema);
      await client.query(sql);
      await client.query(sql);
      expect(await metaOf(client, schema)).toMatchObject({ schema_version: String(SCHEMA_VERSION) });
      expect(await useLedger(schema)).toBe(1);
    },
  );

  it("runs only the migrations that the ledger lacks", async () => {
    const schema = newSchema();
    const client = await connection();
    await client.query(await dump(schema));
    const next = [
      ...MIGRATIONS,
      { readableSince: 1, sql: (name: string) => `CREATE TABLE ${name}.added (id integer)` },
    ];
    const sql = migrationScript({ schema, from: 0, check: "SELECT 1 INTO present", more: [] }, next);
    await client.query(sql);
    await client.query(`INSERT INTO ${schema}.added VALUES (1)`);
    await client.query(sql);
    expect((await client.query(`SELECT id FROM ${schema}.added`)).rows).toEqual([{ id: 1 }]);
    // The older script leaves the newer version as it is: this release can still read it.
    await client.query(await dump(schema));
    expect(await metaOf(client, schema)).toMatchObject({ schema_version: String(SCHEMA_VERSION + 1) });
    await client.query(`UPDATE ${schema}.meta SET value = $1 WHERE name = 'readable_since'`, [SCHEMA_VERSION + 1]);
    await expect(client.query(await dump(schema))).rejects.toThrow(/newer nevertwice.*left untouched/s);
  });

  it("applied by several at once, it is applied once", async () => {
    const schema = newSchema();
    const sql = await dump(schema, "--supabase");
    const clients = await Promise.all(Array.from({ length: 5 }, connection));
    await Promise.all(clients.map((client) => client.query(sql)));
    expect(await useLedger(schema)).toBe(1);
  });

  it("what --dry-run prints can be applied twice too", async () => {
    const schema = newSchema();
    const flags = ["--schema", schema, "--rls", "--grant", "pg_monitor"];
    const { out, err } = await cli.run(["migrate", "--dry-run", "--store", database.url, ...flags]);
    expect(err).toContain("this would be run on");
    const client = await connection();
    await client.query(out);
    await client.query(out);
    expect((await cli.run(["migrate", "--store", database.url, "--schema", schema, "--rls"])).out).toMatch(
      /up to date/,
    );
  });
});
