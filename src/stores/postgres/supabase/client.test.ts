/** The ledger through supabase-js alone: the same suite, on the same server, and nothing for whoever has the anon key. */
import { randomBytes } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { type Role, startPostgrest, supabaseRoles } from "../../../../test/support/postgrest.ts";
import { sampleRecord, storeConformance } from "../../../testing/index.ts";

const database = await freshDatabase();
await supabaseRoles(database.adminUrl);
const api = await startPostgrest(database.adminUrl);
const admin = new pg.Client({ connectionString: database.adminUrl });
await admin.connect();
const cli = new CliLedger();
afterAll(async () => {
  cli.close();
  await admin.end();
});

function clientOf(role: Role) {
  return createClient(api.url, api.keys[role], { auth: { persistSession: false, autoRefreshToken: false } });
}

/** A ledger as `nevertwice migrate --supabase` makes it. */
async function migrated(schema = `t_${randomBytes(6).toString("hex")}`): Promise<string> {
  const { code, err } = await cli.run(["migrate", "--supabase", "--store", database.url, "--schema", schema]);
  expect({ code, err }).toMatchObject({ code: 0 });
  return schema;
}

function storeOf(role: Role, schema: string) {
  const store = postgresStore({ supabase: clientOf(role), schema });
  onTestFinished(() => store.close());
  return store;
}

storeConformance({
  name: "postgres, supabase-js",
  runner: { describe, it },
  offers: ["reopen", "corrupt"],
  open: async () => {
    const schema = await migrated();
    const open = async () => {
      const store = postgresStore({ supabase: clientOf("service_role"), schema });
      await store.read(["nt1_none"]);
      return store;
    };
    const store = await open();
    return {
      store,
      reopen: open,
      corrupt: async (key: string) => {
        await admin.query(`UPDATE ${schema}.records SET doc = 'x' || doc WHERE key = $1`, [Buffer.from(`\0${key}`)]);
      },
      dispose: async () => {
        await store.close();
        await admin.query(`DROP SCHEMA ${schema} CASCADE; DROP FUNCTION public.${schema}_run`);
      },
    };
  },
});

describe("D1: a guarded call through supabase-js", () => {
  it("runs once, for all who call, beside a store on a connection string", async () => {
    const schema = await migrated();
    let runs = 0;
    const stores = [
      storeOf("service_role", schema),
      storeOf("service_role", schema),
      postgresStore({ url: database.url, schema }),
      postgresStore({ url: database.pgbouncerUrl, schema }),
    ];
    const calls = stores.map((store) => {
      const nt = nevertwice({ store, sweep: false });
      onTestFinished(() => nt.close());
      return nt.action("send", { key: ["id"], wait: "30s", run: async (_: { id: number }) => ++runs });
    });
    const outcomes = await Promise.all(Array.from({ length: 40 }, (_, i) => calls[i % 4]?.attempt({ id: 1 })));
    expect(outcomes.every((one) => one?.status === "done" && one.result === 1)).toBe(true);
    expect(runs).toBe(1);
  });

  it("answers what the direct store answers, for every kind of question about a large ledger", async () => {
    const schema = await migrated();
    await admin.query(
      `INSERT INTO ${schema}.records (created_at, keep_ms, attempt, fence, tries, queued, key, tenant, action, doc, rev, updated_at, state, expires_at, input)
       SELECT 1700000000000 + i, 1000, 1, 1, 1, false, sha256(i::text::bytea), '', 'a', '["g",null,{}]', i, 1700000000000 + i, 'confirmed', 1900000000000, repeat('x', 1500)
       FROM generate_series(1, 30000) i; ANALYZE ${schema}.records`,
    );
    const [http, direct] = [storeOf("service_role", schema), postgresStore({ url: database.url, schema })];
    onTestFinished(() => direct.close());
    const stats = await http.stats();
    expect(stats.total).toBeGreaterThan(20_000);
    for (const order of ["newest", "oldest"] as const) {
      const page = await http.list({ limit: 5, order });
      expect(page).toEqual(await direct.list({ limit: 5, order }));
      const next = { limit: 5, order, cursor: page.cursor as string, action: "a", keyPrefix: "nt1_" };
      expect(await http.list(next)).toEqual(await direct.list(next));
    }
    const findings = await http.inspect?.();
    expect(findings?.find(({ name }) => name === "waiting")?.value).toMatch(/polling/);
  });
});

describe("D1: who may use it", () => {
  it.each(["anon", "authenticated"] as const)(
    "the %s key can do nothing: no call, no table, no statement",
    async (role) => {
      const schema = await migrated();
      const own = storeOf("service_role", schema);
      await own.write([{ record: sampleRecord(), expected: null }]);
      let runs = 0;
      const nt = nevertwice({ store: storeOf(role, schema), sweep: false });
      await expect(nt.once("send", [1], () => ++runs)).rejects.toMatchObject({
        code: "CONFIG",
        message: expect.stringMatching(/service_role/),
      });
      expect(runs).toBe(0);
      // The function by hand, and past it, on a connection with that role.
      const { data, error } = await clientOf(role).rpc(`${schema}_run`, { statement: "x", parameters: [] });
      expect({ data, code: error?.code }).toEqual({ data: null, code: "42501" });
      for (const table of ["records", "watch", "meta", "statements"]) {
        const look = admin.query(`BEGIN; SET LOCAL ROLE ${role}; SELECT * FROM ${schema}.${table}`);
        await expect(look).rejects.toMatchObject({ code: "42501" });
        await admin.query("ROLLBACK");
      }
      // Even with a grant that somebody made by mistake, row-level security shows nothing.
      await admin.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT SELECT ON ${schema}.records TO ${role}`);
      await admin.query(`BEGIN; SET LOCAL ROLE ${role}`);
      expect((await admin.query(`SELECT * FROM ${schema}.records`)).rows).toEqual([]);
      await admin.query("ROLLBACK");
    },
  );

  it("the service's key can run what the migration brought, and no SQL of its own", async () => {
    const schema = await migrated();
    const { error } = await clientOf("service_role").rpc(`${schema}_run`, {
      statement: "DROP TABLE x",
      parameters: [],
    });
    expect(error).toMatchObject({ code: "NT001" });
    await admin.query("BEGIN; SET LOCAL ROLE service_role");
    const write = admin.query(`INSERT INTO ${schema}.statements VALUES ('mine', 'SELECT 1')`);
    await expect(write).rejects.toMatchObject({ code: "42501" });
    await admin.query("ROLLBACK");
  });
});

describe("D1: what can be wrong", () => {
  const refused = (store: ReturnType<typeof storeOf>, code: string, message: RegExp) =>
    expect(store.read(["nt1_x"])).rejects.toMatchObject({ code, message: expect.stringMatching(message) });

  it("no function yet: both ways to bring it are named, and the second one works", async () => {
    const schema = `t_${randomBytes(6).toString("hex")}`;
    await refused(storeOf("service_role", schema), "CONFIG", /nevertwice migrate --supabase.*SQL editor/s);
    const { out } = await cli.run(["migrate", "--supabase", "--dump-sql", "--schema", schema]);
    const owner = new pg.Client({ connectionString: database.url });
    await owner.connect();
    await owner.query(out);
    await owner.end();
    expect(await storeOf("service_role", schema).read(["nt1_x"])).toEqual([null]);
  });

  it("a release whose statements are not there: refused, never something else run", async () => {
    const schema = await migrated();
    await admin.query(`DELETE FROM ${schema}.statements`);
    await refused(storeOf("service_role", schema), "CONFIG", /of another release/);
    await migrated(schema);
    expect(await storeOf("service_role", schema).read(["nt1_x"])).toEqual([null]);
  });

  it("a wrong key, a wrong URL, a server that is down", async () => {
    const schema = await migrated();
    const open = (url: string, key: string) => {
      const store = postgresStore({ supabase: createClient(url, key), schema, timeout: "5s" });
      onTestFinished(() => store.close());
      return store;
    };
    await refused(open(api.url, "wrong"), "CONFIG", /service_role/);
    await refused(open("http://127.0.0.1:1", "key"), "STORE_UNAVAILABLE", /project's URL/);
    api.down(true);
    await refused(open(api.url, api.keys.service_role), "STORE_UNAVAILABLE", /Supabase/);
    api.down(false);
  });

  it("options", () => {
    expect(() => postgresStore({ supabase: {} as never })).toThrow(/not a client of supabase-js/);
    expect(() => postgresStore({ supabase: clientOf("anon"), tenant: "a", rls: true })).toThrow(
      /rls is for connections/,
    );
  });
});
