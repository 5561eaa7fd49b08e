/** D6: the functions through supabase-js: `supabase.rpc("nevertwice_enqueue", …)`, with the service key and with no other. */
import { createClient } from "@supabase/supabase-js";
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { type Role, startPostgrest, supabaseRoles } from "../../../../test/support/postgrest.ts";
import { sqlLedger } from "../../../../test/support/sql-ledger.ts";

const database = await freshDatabase();
await supabaseRoles(database.adminUrl);
const api = await startPostgrest(database.adminUrl);
const admin = new pg.Client({ connectionString: database.adminUrl });
await admin.connect();
const cli = new CliLedger();
afterAll(async () => {
  await cli.close();
  await admin.end();
});

const clientOf = (role: Role) =>
  createClient(api.url, api.keys[role], { auth: { persistSession: false, autoRefreshToken: false } });

describe("D6: supabase.rpc", () => {
  it("D6 S1: claims once, settles, enqueues and takes, beside programs that use the library", async () => {
    const ledger = await sqlLedger({ cli, url: database.url }, ["--supabase"]);
    const supabase = clientOf("service_role");
    const rpc = async (name: string, args: object) => {
      const { data, error } = await supabase.rpc(`${ledger.schema}_${name}`, args);
      expect(error).toBe(null);
      // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the function answers
      return data as any;
    };
    const claim = { action: "welcome", parts: ["ada"], payload: { to: "ada" }, lease: "1 minute" };
    expect(await rpc("claim", { ...claim, holder: "run-1" })).toBe(true);
    expect(await rpc("claim", { ...claim, holder: "run-2" })).toBe(false);
    expect(await rpc("try_claim", claim)).toMatchObject({ status: "in_flight" });
    const done = { action: "welcome", parts: ["ada"], outcome: "done", result: { id: "m-1" }, holder: "run-1" };
    expect(await rpc("settle_claim", done)).toMatchObject({ status: "done", result: { id: "m-1" } });
    expect(await rpc("status", { action: "welcome", parts: ["ada"] })).toMatchObject({ status: "done" });
    expect(
      await rpc("enqueue", { action: "mail", parts: [1], payload: { id: 1 }, delay: "1 millisecond" }),
    ).toMatchObject({ created: true });
    let work: { key: string; payload: unknown; holder: string; fence: number }[] = [];
    await expect
      .poll(async () => {
        work = await rpc("take", { actions: ["mail"], most: 5 });
        return work.length;
      })
      .toBe(1);
    expect(work[0]).toMatchObject({ payload: { id: 1 }, fence: 1 });
    const { key, holder, fence } = work[0] as (typeof work)[number];
    expect(await rpc("heartbeat", { key, holder })).toBe(true);
    expect(await rpc("settle", { key, holder, fence, outcome: "done" })).toMatchObject({ status: "done" });
    // The same ledger through supabase-js and the library.
    const nt = nevertwice({ store: postgresStore({ supabase, schema: ledger.schema }), sweep: false });
    onTestFinished(() => nt.close());
    const welcome = nt.action("welcome", { key: ["to"], run: async (_: { to: string }) => ({ id: "twice" }) });
    expect(await welcome({ to: "ada" })).toEqual({ id: "m-1" });
  });

  it("D6: errors arrive with their state and the library's code", async () => {
    const ledger = await sqlLedger({ cli, url: database.url }, ["--supabase"]);
    const supabase = clientOf("service_role");
    const refused = async (name: string, args: object) => (await supabase.rpc(`${ledger.schema}_${name}`, args)).error;
    expect(await refused("claim", { action: "a", parts: [""] })).toMatchObject({
      code: "NT010",
      details: "INVALID_KEY",
      message: expect.stringMatching(/an empty string/),
    });
    await supabase.rpc(`${ledger.schema}_enqueue`, { action: "a", parts: [1], payload: { n: 1 } });
    expect(await refused("enqueue", { action: "a", parts: [1], payload: { n: 2 } })).toMatchObject({
      code: "NT012",
      details: "KEY_CONFLICT",
    });
    expect(await refused("enqueue", { action: "a", parts: [1], orderKey: "x" })).toMatchObject({ code: "PGRST202" });
  });

  it.each(["anon", "authenticated"] as const)(
    "D6: the %s key can do nothing, also after a second migration",
    async (role) => {
      const ledger = await sqlLedger({ cli, url: database.url }, ["--supabase"]);
      const again = ["migrate", "--functions", "--supabase", "--store", database.url, "--schema", ledger.schema];
      expect((await cli.run(again)).code).toBe(0);
      for (const [name, args] of [
        ["enqueue", { action: "a", parts: [1] }],
        ["claim", { action: "a", parts: [1] }],
        ["take", { actions: ["a"] }],
        ["sweep", {}],
      ] as const) {
        const { data, error } = await clientOf(role).rpc(`${ledger.schema}_${name}`, args);
        expect({ name, data, code: error?.code }).toEqual({ name, data: null, code: "42501" });
      }
      const view = admin.query(`BEGIN; SET LOCAL ROLE ${role}; SELECT * FROM ${ledger.schema}.intents`);
      await expect(view).rejects.toMatchObject({ code: "42501" });
      await admin.query("ROLLBACK");
      expect(await ledger.call("SELECT count(*)::int FROM @.records")).toBe(0);
    },
  );

  it("D6: --drop-functions takes them out of public too, and leaves the functions of others", async () => {
    const ledger = await sqlLedger({ cli, url: database.url }, ["--supabase"]);
    const inPublic = async () =>
      (
        await admin.query(
          "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE $1 ORDER BY 1",
          [`${ledger.schema}%`],
        )
      ).rows.map(({ proname }) => proname);
    expect(await inPublic()).toContain(`${ledger.schema}_take`);
    await cli.run(["migrate", "--drop-functions", "--store", database.url, "--schema", ledger.schema]);
    expect(await inPublic()).toEqual([`${ledger.schema}_run`]);
  });
});
