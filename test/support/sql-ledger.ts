/** A ledger with the functions of `migrate --functions`, and a connection that calls them. */
import { randomBytes } from "node:crypto";
import { type PostgresStoreOptions, postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import type { CliLedger } from "./cli.ts";

export interface SqlLedger {
  readonly schema: string;
  /** One call, one row, one value. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the function answers
  call(sql: string, values?: readonly unknown[]): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the function answers
  rows(sql: string, values?: readonly unknown[]): Promise<any[]>;
  store(options?: Partial<PostgresStoreOptions>): ReturnType<typeof postgresStore>;
}

export interface Place {
  readonly cli: CliLedger;
  readonly url: string;
}

export async function sqlLedger(
  { cli, url }: Place,
  flags: readonly string[] = [],
  env: Record<string, string> = {},
  schema = `t_${randomBytes(6).toString("hex")}`,
): Promise<SqlLedger> {
  const { code, err } = await cli.run(["migrate", "--functions", "--store", url, "--schema", schema, ...flags], {
    env,
  });
  expect({ code, err }).toMatchObject({ code: 0 });
  const client = await connect(url);
  const rows = async (sql: string, values: readonly unknown[] = []) =>
    (
      await client.query(
        sql.replaceAll("@.", () => `"${schema.replaceAll('"', '""')}".`),
        [...values],
      )
    ).rows;
  return {
    schema,
    rows,
    call: async (sql, values) => Object.values((await rows(sql, values))[0] ?? {})[0],
    store: (options = {}) => {
      const store = postgresStore({ url, schema, ...options });
      onTestFinished(() => store.close());
      return store;
    },
  };
}

export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}
