/** Agents and providers' ids on the stores that each-store.ts does not open, and in ledgers from before there were any. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { createClient } from "@supabase/supabase-js";
import { nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { MIGRATIONS, migrationSql } from "../src/stores/postgres/sql/schema.ts";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { CliLedger } from "./support/cli.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startPostgrest, supabaseRoles } from "./support/postgrest.ts";
import { startS3 } from "./support/s3-server.ts";

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  file: async () => fileStore({ path: join(temporaryFolder(), "ledger.jsonl") }),
  postgres: async () => postgresStore({ url: (await freshDatabase()).url }),
  supabase: async () => {
    const { url, adminUrl } = await freshDatabase();
    await supabaseRoles(adminUrl);
    const api = await startPostgrest(adminUrl);
    const cli = new CliLedger();
    onTestFinished(() => cli.close());
    expect((await cli.run(["migrate", "--supabase", "--store", url])).code).toBe(0);
    const auth = { persistSession: false, autoRefreshToken: false };
    return postgresStore({ supabase: createClient(api.url, api.keys.service_role, { auth }) });
  },
  redis: async () => redisStore({ url: await flushableRedisDb(), prefix: freshPrefix().slice(0, -1) }),
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    return s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
};

interface Mail {
  readonly to: string;
}

describe.each(Object.entries(STORES))("A6 on %s", (_, open) => {
  it("who acted is on the record, and a provider's id leads back to every intent of the tenant", async () => {
    const store = await open();
    const options = { store, sweep: false, onWarning: () => {}, doubt: "retry" } as const;
    const { doubt, ...made } = options;
    const nt = nevertwice({ ...made, tenant: "acme", tenants: "all", agent: "planner" });
    onTestFinished(() => nt.close());
    const mail = nt.action("mail", { key: ["to"], doubt, run: ({ to }: Mail) => ({ id: to.slice(0, 3) }) });
    for (const to of ["ada-1", "ada-2", "bob-1"]) await mail({ to });
    await mail({ to: "ada-3" }, { tenant: "globex", agent: "sales" });
    const { key } = await mail.enqueue({ to: "ada-4" });
    expect((await nt.store.read([key]))[0]?.record.agent).toBe("planner");
    await nt.worker().drain();
    const found = async (query: { providerId: string; tenant?: string }) =>
      (await nt.find(query)).map(({ input, agent }) => `${(input as Mail).to} ${agent}`).sort();
    expect(await found({ providerId: "ada", tenant: "acme" })).toEqual([
      "ada-1 planner",
      "ada-2 planner",
      "ada-4 planner",
    ]);
    expect(await found({ providerId: "ada", tenant: "globex" })).toEqual(["ada-3 sales"]);
    expect(await found({ providerId: "nobody" })).toEqual([]);
    const { items } = await store.list({ limit: 10, agent: "sales" });
    expect(items.map(({ record }) => record.tenant)).toEqual(["globex"]);
  });
});

describe("A6: a ledger from before agents and providers' ids", () => {
  it("on Postgres is migrated: its records are read, and new ones have both", async () => {
    const { url } = await freshDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    for (const sql of migrationSql("nevertwice", 0, MIGRATIONS.slice(0, 1))) await client.query(sql);
    await client.query(
      `INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, state, result)
       VALUES (1, -1, 1, 1, 1, false, $1, '', 'mail', '["g",null,{"to":"d"}]', 1, 1, 'confirmed', '{"id":"old"}')`,
      [randomBytes(32)],
    );
    const manual = postgresStore({ url, migrate: "manual" });
    onTestFinished(() => manual.close());
    await expect(manual.list({ limit: 1 })).rejects.toThrow(
      /has schema 1, and this release needs \d.*nevertwice migrate/s,
    );
    const nt = nevertwice({ store: postgresStore({ url }), sweep: false, agent: "bot" });
    onTestFinished(() => nt.close());
    await nt.action("mail", { key: ["to"], run: (_: Mail) => ({ id: "new" }) })({ to: "ada" });
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record: { agent, providerId } }) => ({ agent, providerId }))).toEqual([
      { agent: "bot", providerId: "new" },
      { agent: null, providerId: null },
    ]);
    // A release that does not know the columns goes on writing beside this one.
    await client.query(
      `INSERT INTO nevertwice.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, state)
       VALUES (2, -1, 1, 1, 1, false, $1, '', 'mail', '["g",null,{"to":"d"}]', 1, 2, 'confirmed')`,
      [randomBytes(32)],
    );
    expect((await nt.store.list({ limit: 10 })).items).toHaveLength(3);
  });

  it("in a file is read as it is", async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const nt = nevertwice({ store: fileStore({ path }), sweep: false });
    const mail = { key: ["to"] as const, run: (_: Mail) => ({ ok: true }) };
    const { key } = await nt.action("mail", mail).attempt({ to: "ada" });
    await nt.close();
    // Nobody was named and the result has no id: the lines are those of the release before.
    expect(readFileSync(path, "utf8")).not.toMatch(/"agent"|"providerId"/);
    const again = nevertwice({ store: fileStore({ path }), sweep: false, agent: "bot" });
    onTestFinished(() => again.close());
    const [stored] = await again.store.read([key]);
    expect(stored?.record).toMatchObject({ agent: null, providerId: null });
    const named = nevertwice({ store: fileStore({ path }), sweep: false, agent: 'Zoë "王" \\' });
    onTestFinished(() => named.close());
    await named.action("mail", { ...mail, run: (_: Mail) => ({ id: "id_1" }) })({ to: "bob" });
    expect((await again.find({ providerId: "id_1" })).map(({ agent }) => agent)).toEqual(['Zoë "王" \\']);
  });

  it("in a bucket is read as it is", async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    const { decodeBody, encodeBody } = await import("../src/stores/s3/object.ts");
    const { sampleRecord } = await import("../src/testing/index.ts");
    const { agent: _agent, providerId: _id, ...old } = sampleRecord();
    const inner = JSON.stringify({ version: 1, record: old });
    const text = `{"nevertwice":1,"crc":"${crc32(inner).toString(16).padStart(8, "0")}","entry":${inner}}`;
    expect(decodeBody(text, "k", "here")).toEqual({
      kind: "record",
      version: 1,
      record: sampleRecord(),
      leaseMs: null,
    });
    expect(encodeBody({ kind: "record", version: 1, record: sampleRecord(), leaseMs: null })).toContain('"agent":null');
    const store = s3Store({ url: server.url, endpoint: server.endpoint, credentials });
    onTestFinished(() => store.close());
    expect((await store.list({ limit: 1, agent: "x" })).items).toEqual([]);
  });
});
