/** What doctor says about the server's tidiness, with somebody really in vacuum's way. */
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import type { Finding } from "../../core/store.ts";
import type { Connection } from "./client/connection.ts";
import { postgresStore } from "./index.ts";
import { inspectServer } from "./inspect.ts";
import { checkOptions } from "./options.ts";

async function connected(connectionString: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, application_name: name });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

async function scene() {
  const database = await freshDatabase();
  const store = postgresStore({ url: database.url, listen: false });
  await store.read(["x"]);
  onTestFinished(() => store.close());
  const holder = await connected(database.url, "nightly report");
  await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  const { pid } = (await holder.query("SELECT pg_backend_pid() AS pid FROM nevertwice.meta LIMIT 1")).rows[0];
  /** What doctor finds when it takes anything for old and much. */
  const strict = async (url: string) => {
    const client = await connected(url, "doctor");
    const run: Connection = {
      query: async (text, values) => (await client.query(text, values as string[])).rows,
    };
    const findings = await inspectServer(run, {
      tables: { table: "nevertwice.records", watch: "nevertwice.watch" },
      settings: checkOptions({ url }),
      waiting: "",
      alarm: { snapshotSeconds: -1, deadRows: 500 },
    });
    return new Map(findings.map((finding) => [finding.name, finding]));
  };
  return { database, store, holder, pid, strict };
}

it("names who holds the oldest snapshot, since when, and what to do about it", async () => {
  const { database, store, holder, pid, strict } = await scene();
  const found = (await store.inspect?.())?.find(({ name }) => name === "oldest snapshot");
  const who = new RegExp(`^\\d+ s, held by pid ${pid}, \\w+, nightly report, idle in transaction`);
  // Seconds are no reason to worry.
  expect(found).toMatchObject({ value: expect.stringMatching(who), ok: true });

  const old = (await strict(database.adminUrl)).get("oldest snapshot");
  expect(old).toMatchObject({ value: expect.stringMatching(new RegExp(`${who.source}$`)), ok: false });
  expect(old?.advice).toContain("SELECT pg_terminate_backend(<its pid>)");
  expect(old?.advice).toContain("idle_in_transaction_session_timeout");

  await holder.query("ROLLBACK");
  expect((await strict(database.adminUrl)).get("oldest snapshot")).toMatchObject({ value: "none", ok: true });
});

it("says so where the role cannot see the transactions of others", async () => {
  const { database, store, holder } = await scene();
  await holder.query("ROLLBACK");
  const admin = await connected(database.adminUrl, "somebody else");
  await admin.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM nevertwice.records");
  const found = (await store.inspect?.())?.find(({ name }) => name === "oldest snapshot");
  expect(found?.value).toBe("none, as far as this role may see (GRANT pg_read_all_stats shows the others')");
});

it("counts the dead rows that vacuum may not remove, and what to do about them", async () => {
  const { database, store, holder, strict } = await scene();
  expect((await store.inspect?.())?.find(({ name }) => name === "table")).toMatchObject({ ok: true });
  const writer = await connected(database.url, "writer");
  await writer.query(`INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, state)
    SELECT n, 1, 1, 1, 1, false, convert_to('k' || n, 'UTF8'), '', 'mail', '{}', 1, n, 'confirmed' FROM generate_series(1, 1000) n`);
  await writer.query("UPDATE nevertwice.records SET rev = rev + 1");
  await writer.query("VACUUM nevertwice.records");
  // A session tells the statistics what it did when it is idle for a moment.
  let table: Finding | undefined;
  await expect
    .poll(
      async () => {
        table = (await strict(database.url)).get("table");
        return table?.ok;
      },
      { timeout: 30_000, interval: 500 },
    )
    .toBe(false);
  expect(table?.value).toMatch(/^\d+ kB, about \d+ live and 1000 dead rows$/);
  expect(table?.advice).toMatch(/end what holds the oldest snapshot \(below\), then VACUUM nevertwice\.records/);

  await holder.query("ROLLBACK");
  await writer.query("VACUUM nevertwice.records");
  await expect
    .poll(async () => (await strict(database.url)).get("table")?.ok, { timeout: 30_000, interval: 500 })
    .toBe(true);
});
