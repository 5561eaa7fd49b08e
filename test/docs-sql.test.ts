/** The SQL in docs/sql.md, run from top to bottom on a ledger with the functions. */
import { readFileSync } from "node:fs";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { COMMANDS } from "../src/cli/registry.ts";
import { entries } from "../src/stores/postgres/functions/entries.ts";
import { freshDatabase } from "./services/addresses.ts";
import { CliLedger } from "./support/cli.ts";

const text = readFileSync(new URL("../docs/sql.md", import.meta.url), "utf8");
const cli = new CliLedger();
afterAll(() => cli.close());

it("D6: the SQL of docs/sql.md does what the page says", async () => {
  const { url } = await freshDatabase();
  expect(await cli.run(["migrate", "--functions", "--store", url])).toMatchObject({ code: 0 });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  // pg_cron is not installed here: its schedule runs what it is given at once.
  await client.query(`CREATE SCHEMA cron; CREATE FUNCTION cron.schedule(name text, at text, command text) RETURNS void
    LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; END $$`);
  const blocks = [...text.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  expect(blocks.length).toBe(6);
  const answers: unknown[] = [];
  for (const block of blocks) {
    const results = (await client.query(block)) as unknown as pg.QueryResult | pg.QueryResult[];
    for (const { rows } of [results].flat()) for (const row of rows) answers.push(Object.values(row)[0]);
  }
  expect(answers).toEqual([
    "processed",
    "already_processed",
    true,
    expect.objectContaining({ status: "done", result: { id: "m-17" } }),
    false,
    expect.objectContaining({ status: "done", result: { id: "m-17" } }),
    expect.objectContaining({ created: true }),
    expect.stringMatching(/^nt1_/),
    "",
    "",
  ]);
  const nt = nevertwice({ store: url, sweep: false });
  onTestFinished(() => nt.close());
  const mails: string[] = [];
  nt.action("confirm_order", {
    key: ["orderId"],
    run: async ({ email }: { orderId: number; email: string }) => void mails.push(email),
  });
  await nt.worker().drain();
  expect(mails.sort()).toEqual(["ada@example.com", "bob@example.com"]);
});

it("D6: the page names every function and every flag", () => {
  for (const { name } of entries('"nevertwice"')) expect(text).toContain(`${name}(`);
  const flags = Object.keys(COMMANDS.find(({ name }) => name === "migrate")?.flags ?? {});
  for (const flag of ["functions", "drop-functions", "secret-env", "grant-enqueue"]) {
    expect(flags).toContain(flag);
    expect(text).toContain(`--${flag}`);
  }
});
