/** Stores that are given by name are loaded at their first call, and are then the stores they name. */
import { join } from "node:path";
import { Pool } from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase } from "../test/services/addresses.ts";
import { temporaryFolder } from "../test/support/each-store.ts";
import { startS3 } from "../test/support/s3-server.ts";
import type { Store, TransactionalStore } from "./core/store.ts";
import * as onDemand from "./named-stores.ts";
import * as bundled from "./named-stores-bundled.ts";
import { nevertwice } from "./nevertwice.ts";
import { openStore } from "./open-store.ts";
import { fileStore } from "./stores/file/index.ts";
import { memoryStore } from "./stores/memory.ts";
import { postgresStore } from "./stores/postgres/index.ts";
import { redisStore } from "./stores/redis/index.ts";
import { s3Store } from "./stores/s3/index.ts";
import { storeOnDemand } from "./stores/shared/on-demand.ts";
import { sampleRecord, storeConformance } from "./testing/index.ts";

// An S3 address carries no credentials: by name they come from the environment.
process.env.AWS_ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE";
process.env.AWS_SECRET_ACCESS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

const database = await freshDatabase();
const bucket = await startS3();
afterAll(() => bucket.close());
const s3 = `${bucket.url}?endpoint=${encodeURIComponent(bucket.endpoint)}`;
const redis = await flushableRedisDb();

let count = 0;
const nextSchema = () => {
  count += 1;
  const url = new URL(database.url);
  url.searchParams.set("schema", `named_${count}`);
  return url.href;
};

storeConformance({
  name: "postgres, by name",
  runner: { describe, it },
  offers: ["reopen"],
  open: () => {
    const name = nextSchema();
    const store = openStore(name);
    return { store, reopen: () => openStore(name), dispose: () => store.close() };
  },
});

storeConformance({
  name: "file, by name",
  runner: { describe, it },
  offers: ["reopen"],
  open: () => {
    const name = `file:${join(temporaryFolder(), "ledger.jsonl")}`;
    const store = openStore(name);
    return { store, reopen: () => openStore(name), dispose: () => store.close() };
  },
});

const closedAfterwards = <S extends Store>(store: S): S => {
  onTestFinished(() => store.close());
  return store;
};

describe("what is known from a name", () => {
  const MEMBERS = ["watch", "refuses", "quarantine", "inspect", "within", "instant"] as const;
  const known = (store: Store) => ({
    name: store.name,
    traits: store.traits,
    batchRows: store.batchRows,
    crowdedBatchRows: store.crowdedBatchRows,
    members: MEMBERS.filter((member) => typeof (store as never)[member] === "function"),
    epoch: store.instant?.().epoch,
  });

  it.each([
    ["postgres", () => nextSchema(), (name: string) => postgresStore({ url: name })],
    ["redis", () => redis, (name: string) => redisStore({ url: name })],
    [
      "file",
      () => `file:${join(temporaryFolder(), "ledger.jsonl")}`,
      (name: string) => fileStore({ path: name.slice("file:".length) }),
    ],
    ["s3", () => s3, (name: string) => s3Store({ url: name })],
  ] as const)("is what the store says itself: %s", async (_, nameOf, itself) => {
    const name = nameOf();
    const [named, real] = [closedAfterwards(openStore(name)), closedAfterwards(itself(name))];
    expect(known(named)).toEqual(known(real));
    await Promise.all([named.read(["nt1_a"]), real.read(["nt1_a"])]);
    expect(known(named)).toEqual(known(real));
  });

  it("is checked at once: a wrong address is refused by nevertwice()", () => {
    expect(() => nevertwice({ store: "postgres:app" })).toThrow(/no \/\/ behind its scheme/);
    expect(() => nevertwice({ store: "redis://host:notaport" })).toThrow(/redis/);
    expect(() => nevertwice({ store: "s3://bucket/a?acl=public" })).toThrow(/acl is not a parameter/);
  });

  it("has its credentials from the environment as it was then", async () => {
    const nt = nevertwice({ store: s3, sweep: false });
    const { AWS_SECRET_ACCESS_KEY } = process.env;
    onTestFinished(() => {
      process.env.AWS_SECRET_ACCESS_KEY = AWS_SECRET_ACCESS_KEY;
    });
    delete process.env.AWS_SECRET_ACCESS_KEY;
    expect(() => nevertwice({ store: s3 })).toThrow(/there are no credentials/);
    expect(await nt.once("send", ["credentials"], () => "sent")).toBe("sent");
    await nt.close();
  });
});

it("an action works on each by name, with repeats and a second instance", async () => {
  for (const store of [nextSchema(), redis, `file:${join(temporaryFolder(), "ledger.jsonl")}`, s3]) {
    const instances = [nevertwice({ store, sweep: false }), nevertwice({ store, sweep: false })];
    let sent = 0;
    const send = () => Promise.all(instances.map((nt) => nt.once("send", [1], async () => ++sent)));
    expect(await send()).toEqual([1, 1]);
    expect(await send()).toEqual([1, 1]);
    await Promise.all(instances.map((nt) => nt.close()));
    await expect(instances[0]?.store.read(["nt1_a"])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  }
});

it("a transaction may be the very first use of a PostgreSQL ledger by name", async () => {
  const name = nextSchema();
  const nt = nevertwice({ store: name, sweep: false });
  const pool = new Pool({ connectionString: database.url });
  onTestFinished(() => pool.end());
  const client = await pool.connect();
  const pay = nt.action("pay", { key: (id: number) => [id], run: () => "paid" });
  await client.query("BEGIN");
  expect(await pay(1, { tx: client })).toBe("paid");
  await client.query("ROLLBACK");
  await client.query("BEGIN");
  expect(await pay(1, { tx: client })).toBe("paid");
  await client.query("COMMIT");
  client.release();
  expect(await pay.attempt(1)).toMatchObject({ status: "done", replayed: true });
  await nt.close();
});

describe("loading", () => {
  const known = {
    name: "test:",
    traits: memoryStore().traits,
    clock: { instant: () => memoryStore().instant?.() },
    batchRows: 1,
  };
  const over = (load: () => Promise<Store>, has: readonly ("watch" | "within")[] = []) =>
    storeOnDemand({ ...known, has } as never, load);

  it("begins with the first call, once", async () => {
    let loads = 0;
    const store = over(async () => {
      loads += 1;
      return memoryStore();
    });
    expect(loads).toBe(0);
    await Promise.all([
      store.read(["nt1_a"]),
      store.write([{ record: sampleRecord({ key: "nt1_a" }), expected: null }]),
    ]);
    expect(loads).toBe(1);
    expect((await store.read(["nt1_a"]))[0]?.record.key).toBe("nt1_a");
  });

  it("that fails says so in terms of the store, and is tried again", async () => {
    let fails = true;
    const store = over(async () => {
      if (fails) throw new Error("Cannot find module './stores/postgres.js'");
      return memoryStore();
    });
    await expect(store.read(["nt1_a"])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/test: could not be loaded: Cannot find module/),
    });
    fails = false;
    expect(await store.read(["nt1_a"])).toEqual([null]);
  });

  it("a watch that was stopped meanwhile does not begin; another is stopped in the store", async () => {
    const watched: string[] = [];
    const watching = Object.assign(memoryStore(), {
      watch: (key: string) => {
        watched.push(key);
        return () => watched.push(`${key} stopped`);
      },
    });
    const store = over(async () => watching, ["watch"]);
    store.watch?.("nt1_a", () => {})();
    const stop = store.watch?.("nt1_b", () => {});
    await store.read(["nt1_a"]);
    stop?.();
    store.watch?.("nt1_c", () => {})();
    expect(watched).toEqual(["nt1_b", "nt1_b stopped", "nt1_c", "nt1_c stopped"]);
  });

  it("a view of a transaction is one view, before and after", async () => {
    let views = 0;
    const transactional = Object.assign(memoryStore(), {
      within: () => {
        views += 1;
        return { read: async () => [null], write: async () => [] };
      },
    });
    const store = over(async () => transactional, ["within"]) as TransactionalStore<unknown>;
    const view = store.within({});
    expect(await view.atomically?.(async () => [await view.read(["nt1_a"]), await view.write([])])).toEqual([
      [null],
      [],
    ]);
    expect(views).toBe(1);
  });

  it("bundlers and Node get the same names", () => {
    expect(Object.keys(bundled)).toEqual(Object.keys(onDemand));
  });
});
