/** What can be wrong with a server: each a NevertwiceError that names the remedy, and none of them a claim. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { type PostgresStoreOptions, postgresStore } from "nevertwice/postgres";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { tcpProxy } from "../../../test/support/tcp-proxy.ts";
import type { Store } from "../../core/store.ts";
import { sampleRecord } from "../../testing/index.ts";
import { storeError } from "./errors.ts";

function open(options: PostgresStoreOptions): Store {
  const store = postgresStore({ listen: false, ...options });
  onTestFinished(() => store.close());
  return store;
}

const put = { record: sampleRecord(), expected: null };

async function refused(store: Store, code: "CONFIG" | "STORE_UNAVAILABLE", remedy: RegExp) {
  const error = await store.write([put]).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({ name: "NevertwiceError", code, message: expect.stringMatching(remedy) });
  expect((error as Error).message).not.toMatch(/secret/);
}

describe("options", () => {
  it.each<[PostgresStoreOptions, RegExp]>([
    [{}, /exactly one of url, pool/],
    [{ url: "postgres://a/b", pool: new pg.Pool() }, /exactly one/],
    [{ url: "mysql://a/b" }, /write postgres:\/\//],
    [{ url: "not a url" }, /cannot be read/],
    [{ url: "postgres://a/b", schema: "" }, /schema is an empty string.*may not be set/],
    [{ url: "postgres://a/b", timeout: "soon" }, /not a duration/],
    [{ url: "postgres://a/b", rls: true }, /rls needs tenant/],
    [{ url: "postgres://a/b", rls: true, tenant: "" }, /rls needs tenant/],
    [{ pool: {} as pg.Pool }, /not a Pool of pg/],
    [{ client: new pg.Pool() as unknown as pg.Client }, /A Pool goes into pool/],
    [{ sql: {} as postgres.Sql }, /not the sql of postgres.js/],
    [{ url: "postgres://a/b", shcema: "x" } as PostgresStoreOptions, /no option "shcema"/],
    [{ url: "postgres://a/b", migrate: "never" } as unknown as PostgresStoreOptions, /"auto" or "manual"/],
  ])("%j", (options, message) => {
    expect(() => postgresStore(options)).toThrow(
      expect.objectContaining({ code: "CONFIG", message: expect.stringMatching(message) }),
    );
  });

  it("the name tells host and database, not who and with what password", async () => {
    expect(postgresStore({ url: "postgres://app:secret@db.example:5433/shop" }).name).toBe(
      "postgres://db.example:5433/shop",
    );
  });
});

describe("a server that cannot be used", () => {
  it("wrong port, wrong host", async () => {
    const nobody = await tcpProxy(new URL("postgres://127.0.0.1:1"));
    const { port } = nobody;
    await nobody.close();
    await refused(open({ url: `postgres://u:secret@127.0.0.1:${port}/x` }), "STORE_UNAVAILABLE", /Start the server/);
    await refused(open({ url: "postgres://u:secret@no.such.host.invalid/x" }), "STORE_UNAVAILABLE", /host name|DNS/);
  });

  it("a role without grants: the error names the command that grants, and its SQL", () => {
    const denied = Object.assign(new Error("permission denied for schema nevertwice"), {
      code: "42501",
      severity: "ERROR",
    });
    const { message } = storeError(denied, { where: "postgres://db/app", schema: "nevertwice" }) as Error;
    expect(message).toContain("nevertwice migrate --store <the owner's URL> --grant <role> (--dump-sql --grant <role>");
    expect(message).toContain("GRANT USAGE ON SCHEMA");
    const other = storeError(denied, { where: "postgres://db/app", schema: "guard" }) as Error;
    expect(other.message).toContain("--schema guard --grant <role>");
  });

  it("wrong password, wrong database", async () => {
    const { url } = await freshDatabase();
    const wrong = Object.assign(new URL(url), { password: "secret" }).href;
    await refused(open({ url: wrong }), "CONFIG", /Correct the user and password/);
    const sql = postgres(wrong, { max: 1 });
    onTestFinished(() => sql.end());
    await refused(open({ sql }), "CONFIG", /Correct the user and password/);
    await refused(open({ url: Object.assign(new URL(url), { pathname: "/nowhere" }).href }), "CONFIG", /createdb/);
  });

  it("no driver installed", () => {
    const program = `
      import Module from "node:module";
      const resolve = Module._resolveFilename;
      Module._resolveFilename = (name, ...rest) => {
        if (name === "pg" || name === "postgres") throw new Error("Cannot find package " + name);
        return resolve(name, ...rest);
      };
      const { postgresStore } = await import(${JSON.stringify(fileURLToPath(new URL("../../../dist/stores/postgres/index.js", import.meta.url)))});
      await postgresStore({ url: "postgres://127.0.0.1/x" }).read(["x"]).catch((error) => console.log(error.code, error.message));`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    expect(stdout).toMatch(/^CONFIG .*npm install pg/);
  });

  it("a read-only server: at the start, and when it becomes one later", async () => {
    const { url } = await freshDatabase();
    const store = open({ url });
    await store.read(["x"]);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`);
    await refused(open({ url }), "STORE_UNAVAILABLE", /Connect to the primary/);
  });

  it("a schema dropped under a running program is an error, never an empty ledger", async () => {
    const { url } = await freshDatabase();
    const store = open({ url });
    await store.write([put]);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("DROP SCHEMA nevertwice CASCADE");
    await client.end();
    await refused(store, "CONFIG", /Restore it from a backup.*nevertwice migrate/s);
    await expect(store.read(["nt1_sample"])).rejects.toMatchObject({ code: "CONFIG" });
  });

  it("a client with an open transaction does not carry the ledger's writes", async () => {
    const { url } = await freshDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const store = open({ client });
    await store.read(["x"]);
    await client.query("BEGIN");
    await refused(store, "CONFIG", /Pass that client to the call as tx/);
    await client.query("ROLLBACK");
    expect(await store.write([put])).toMatchObject([{ ok: true }]);
  });
});

describe("a network that cannot be trusted", () => {
  async function proxied(options: Partial<PostgresStoreOptions> = {}) {
    const { url } = await freshDatabase();
    const proxy = await tcpProxy(new URL(url));
    onTestFinished(() => proxy.close());
    const store = open({ url: proxy.through(url), timeout: "400ms", ...options });
    await store.read(["x"]);
    return { proxy, store, direct: open({ url }), url };
  }
  const isWrite = (bytes: Buffer) => bytes.includes("INSERT INTO");

  it("a server that falls silent is given up after the timeout, and its connection with it", async () => {
    // Long enough for a new connection on a busy machine.
    const { proxy, store } = await proxied({ timeout: "2s" });
    proxy.behave("blackhole");
    await refused(store, "STORE_UNAVAILABLE", /did not answer in time/);
    proxy.behave("reset");
    expect(await store.write([put])).toMatchObject([{ ok: true }]);
  });

  it.each(["drop-replies", "reset"] as const)(
    "F20: the reply to a write is lost (%s): it rejects, though it was written",
    async (how) => {
      const { proxy, store, direct } = await proxied();
      proxy.when(isWrite, how);
      await refused(store, "STORE_UNAVAILABLE", /./);
      expect((await direct.read([put.record.key]))[0]?.record).toEqual(put.record);
    },
  );

  it("F20: the engine recognises its own claim and runs the effect once", async () => {
    const { proxy, store, direct } = await proxied();
    const nt = nevertwice({ store, sweep: false });
    let runs = 0;
    const send = nt.action("send", { key: ["id"], run: async (_: Record<string, unknown>) => ++runs });
    proxy.when(isWrite, "reset");
    setTimeout(() => proxy.behave("pass"), 200);
    const outcome = await send.attempt({ id: 1 });
    expect(outcome).toMatchObject({ status: "done", replayed: false, attempt: 1 });
    expect(runs).toBe(1);
    expect((await direct.read([outcome.key]))[0]?.record).toMatchObject({ state: "confirmed", fence: 1 });
  });

  it("F30: a backend that is terminated: nothing is sent without the ledger's word, and the next call works", async () => {
    const { url } = await freshDatabase();
    const store = open({ url });
    const nt = nevertwice({ store, sweep: false });
    await nt.once("warm", [1], () => 1);
    const admin = new pg.Client({ connectionString: url });
    await admin.connect();
    onTestFinished(() => admin.end());
    let runs = 0;
    const send = nt.action("send", { key: ["id"], wait: 0, run: async (_: Record<string, unknown>) => ++runs });
    for (let id = 1; id <= 20; id += 1) {
      const call = send.attempt({ id }).catch(() => null);
      if (id % 4 === 0)
        await admin.query(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
      await call;
    }
    for (let id = 1; id <= 20; id += 1) expect(await send.attempt({ id })).toMatchObject({ status: "done" });
    expect(runs).toBe(20);
  });
});
