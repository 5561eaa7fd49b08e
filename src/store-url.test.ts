/** Parameters in a store's URL: they work, or they are refused with the list of what there is. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase, freshPrefix, redisUrl } from "../test/services/addresses.ts";
import { temporaryFolder } from "../test/support/each-store.ts";
import { nevertwice } from "./nevertwice.ts";
import { chooseStore, ledgerFile } from "./open-store.ts";
import { postgresStore } from "./stores/postgres/index.ts";
import { checkOptions } from "./stores/postgres/options.ts";
import { redisStore } from "./stores/redis/index.ts";
import { readLocation } from "./stores/redis/location.ts";

const refusal = (store: string) => {
  try {
    chooseStore(store, "store");
  } catch (error) {
    return (error as Error).message;
  }
  return "it was taken";
};

describe("postgres://", () => {
  const of = (query: string) => checkOptions({ url: `postgres://ana@db/app?${query}` });

  it("the ledger's own parameters work, and options win over them", () => {
    expect(of("migrate=manual&schema=agents&timeout=3s&listen=false")).toMatchObject({
      migrate: "manual",
      schema: "agents",
      timeoutMs: 3_000,
      listen: false,
      url: "postgres://ana@db/app",
    });
    expect(checkOptions({ url: "postgres://db/app?migrate=manual", migrate: "auto" }).migrate).toBe("auto");
    expect(() => of("migrate=never")).toThrow(/migrate is "never"; it takes "auto" or "manual"/);
    expect(() => of("listen=maybe")).toThrow(/listen in the URL is "maybe"; it takes true or false/);
    expect(() => of("timeout=soon")).toThrow(/timeout: "soon" is not a duration/);
  });

  it("?migrate=manual in nevertwice({ store }) makes no tables", async () => {
    const { url } = await freshDatabase();
    const nt = nevertwice({ store: `${url}?migrate=manual`, sweep: false });
    onTestFinished(() => nt.close());
    await expect(nt.once("a", [1], async () => 1)).rejects.toThrow(/nevertwice migrate/);
  });

  it("the connection's parameters go to the driver, and work", async () => {
    const query =
      "application_name=agents&sslmode=disable&channel_binding=prefer&connect_timeout=5&statement_timeout=9000";
    expect(of(query).url).toBe(`postgres://ana@db/app?${query}`);
    const { url } = await freshDatabase();
    const store = postgresStore({ url: `${url}?${query}`, listen: false });
    onTestFinished(() => store.close());
    expect(await store.read(["nt1_x"])).toEqual([null]);
  });

  it("an unknown one is refused with what there is, and its value is not shown", () => {
    expect(() => of("migrat=manual")).toThrow(
      /the parameter "migrat", which nothing reads\. Did you mean migrate\? The ledger's parameters are: schema, migrate, timeout, listen\. And of the connection: application_name, /,
    );
    expect(() => of("pgbouncer=hunter2")).toThrow(/"pgbouncer".*Prisma's pgbouncer/);
    expect(() => of("pgbouncer=hunter2")).not.toThrow(/hunter2/);
  });
});

describe("redis://", () => {
  const of = (query: string) => readLocation({ url: `redis://host:6379/0?${query}` });

  it("the ledger's own work, ioredis's go on, others are refused", () => {
    expect(of("prefix=agents&allowUnsafe=true&timeoutMs=900")).toMatchObject({
      prefix: "agents",
      allowUnsafe: true,
      timeoutMs: 900,
      url: "redis://host:6379/0",
    });
    expect(of("family=6&connectionName=agents").url).toBe("redis://host:6379/0?family=6&connectionName=agents");
    expect(() => of("allowUnsafe=yes")).toThrow(/allowUnsafe in the URL is "yes"; it takes true or false/);
    expect(() => of("timeoutMs=5s")).toThrow(/timeoutMs is NaN; it takes milliseconds/);
    expect(() => of("cluster=true")).toThrow(/"cluster", which nothing reads.*prefix, allowUnsafe, timeoutMs/);
    expect(() => of("keyPrefix=x")).toThrow(/"keyPrefix", which nothing reads/);
  });

  it("a parameter of ioredis reaches the server", async () => {
    const url = new URL(redisUrl());
    url.searchParams.set("connectionName", "agents");
    url.searchParams.set("prefix", freshPrefix().slice(0, -1));
    const store = redisStore({ url: url.href });
    onTestFinished(() => store.close());
    expect(await store.read(["nt1_x"])).toEqual([null]);
  });
});

describe("files and memory", () => {
  it.each(["sqlite:app.db?mode=ro", "file:ledger.jsonl?migrate=manual", "sqlite:///app.db?migrate=manual"])(
    "%s is refused, and no file of that name is made",
    (store) => {
      expect(refusal(store)).toMatch(
        /^store: the URL has the parameter "(mode|migrate)", which nothing reads\. It takes none\./,
      );
      const around = { cwd: temporaryFolder(), env: {}, home: "/", platform: process.platform };
      expect(() => ledgerFile(store, "--store", around)).toThrow(/--store: the URL has the parameter/);
      expect(existsSync(join(process.cwd(), "app.db?mode=ro"))).toBe(false);
    },
  );

  it("memory: has no name and no parameters", () => {
    expect(refusal("memory:?a=b")).toContain("has no name and no parameters");
    expect(refusal("memory:shared")).toContain("has no name and no parameters");
    expect([refusal("memory:"), refusal("memory://")]).toEqual(["it was taken", "it was taken"]);
  });

  it("s3: refuses what it does not know", () => {
    expect(refusal("s3://bucket/a?acl=public")).toMatch(/acl is not a parameter of an S3 address; it takes region/);
  });
});
