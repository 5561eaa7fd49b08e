/** The service on every store that needs a server or a file of its own; memory and SQLite are in src/serve. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Redis } from "ioredis";
import { nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase, freshPrefix, redisUrl } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { until } from "./support/gate.ts";
import { startS3 } from "./support/s3-server.ts";
import { served } from "./support/served.ts";

type Connect = () => Store;

const STORES: Readonly<Record<string, () => Promise<Connect> | Connect>> = {
  file: () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return () => fileStore({ path });
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
    return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
  redis: () => {
    const prefix = freshPrefix().replace(/:$/, "");
    const client = new Redis(redisUrl());
    onTestFinished(() => void client.disconnect());
    return () => redisStore({ client, prefix });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    const schema = `t_${randomBytes(6).toString("hex")}`;
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    onTestFinished(() => pool.end());
    return () => postgresStore({ pool, schema, listen: false });
  },
};

describe.each(Object.keys(STORES))("D7: the service on %s", (name) => {
  const start = async () => {
    const connect = await (STORES[name] as () => Promise<Connect>)();
    const nt = nevertwice({ store: connect(), sweep: false, onWarning: () => {} });
    const store = connect();
    onTestFinished(async () => {
      await nt.close();
      await store.close();
    });
    return { nt, ...(await served(store)) };
  };

  it("a claim is one for clients and programs, its lost reply is recognised, and late success is accepted", async () => {
    const { nt, ok, post } = await start();
    const claim = { action: "send", parts: [7], input: { to: "a" }, lease: "200ms", request: "one-call" };
    const first = await ok("claim", claim);
    const again = await ok("claim", claim);
    expect(again).toMatchObject({ status: "claimed", token: first.token, again: true });
    await until(
      async () => (await ok("status", { action: "send", parts: [7] })).status === "unknown",
      "the lease is over",
    );
    expect(await post("settle", { token: first.token, as: "not-sent" })).toMatchObject({
      status: 409,
      body: { error: { code: "LEASE_LOST" } },
    });
    expect(await ok("claim", claim)).toMatchObject({ status: "unknown" });
    const done = { token: first.token, as: "done", result: { id: "m-1" } };
    expect(await ok("settle", done)).toMatchObject({ status: "done", replayed: false });
    expect(await ok("settle", done)).toMatchObject({ status: "done", replayed: false });
    const send = nt.action("send", { key: () => [7], run: async (_: { to: string }) => "again" });
    expect(await send({ to: "a" })).toEqual({ id: "m-1" });
  });

  it("G2: a late success of an input that was corrected since is not the corrected one's", async () => {
    const { nt, ok } = await start();
    const claim = (to: string) => ok("claim", { action: "send", parts: [7], input: { to } });
    const settle = (token: string, as: string, result?: string) => ok("settle", { token, as, result });
    const first = await claim("wrong");
    await settle(first.token, "unknown");
    await nt.resolve({ key: first.key }, { as: "not-done", by: "ada", reason: "looked too early" });
    const second = await claim("right");
    expect(await settle(first.token, "done", "to wrong")).toMatchObject({ status: "in_flight" });
    const done = { status: "done", result: "to right" };
    expect(await settle(second.token, "done", "to right")).toMatchObject({ ...done, replayed: false });
    expect(await claim("right")).toMatchObject({ ...done, replayed: true });
    expect(await claim("wrong")).toMatchObject({ status: "conflict", differs: ["to"] });
  });

  it("work is taken by clients and workers, in order, and a lost take is recognised", async () => {
    const { nt, ok } = await start();
    const ran: string[] = [];
    const mail = nt.action("mail", {
      key: ["to"],
      run: async ({ to }: { to: string }) => {
        ran.push(to);
        return "by a worker";
      },
    });
    await mail.enqueue({ to: "a" }, { orderKey: "one" });
    await ok("enqueue", { action: "mail", parts: ["b"], input: { to: "b" }, order: "one" });
    const take = { actions: ["mail"], limit: 5, request: "take-1" };
    const { work } = await ok("take", take);
    expect(work).toMatchObject([{ input: { to: "a" }, state: "sent" }]);
    expect((await ok("take", take)).work).toEqual([{ ...work[0], again: true }]);
    await ok("settle", { token: work[0].token, as: "done", result: "by a client" });
    await until(async () => {
      await nt.worker().drain();
      return ran.length === 1;
    }, "the worker runs the second one");
    expect(await mail({ to: "a" })).toBe("by a client");
    expect(await ok("status", { action: "mail", parts: ["b"] })).toMatchObject({
      status: "done",
      result: "by a worker",
    });
  });
});
